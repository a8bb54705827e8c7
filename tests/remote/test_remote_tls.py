"""https: behind a proxy with a certificate of one's own, and where that is not what answers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.http import serving
from support.processes import BOUND_S
from support.tls import behind_tls, made_authority


class Ends:
    """A server of plain HTTP, a proxy that speaks TLS before it, and who signed for that."""

    def __init__(self, plain: int, proxy: int, authority: Path) -> None:
        self.plain = plain
        self.proxy = proxy
        self.authority = authority


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ends]:
    folder = tmp_path_factory.mktemp("tls")
    context, authority = made_authority(folder)
    with serving(folder / "edge.db") as api, behind_tls(context, api.port) as proxy:
        yield Ends(api.port, proxy, authority)


def asked(url: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The real program: it is its start that reads which certificates are trusted."""
    return subprocess.run(
        [sys.executable, "-m", "edgecron", "--url", url, *words],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=BOUND_S,
    )


def test_a_server_is_asked_through_a_proxy_that_speaks_tls(ends: Ends) -> None:
    url = f"https://127.0.0.1:{ends.proxy}"

    added = asked(
        url, "add", "far", "--every", "1h", "--", "true", SSL_CERT_FILE=str(ends.authority)
    )
    listed = asked(url, "list", SSL_CERT_FILE=str(ends.authority))

    assert added.returncode == 0, added.stderr
    assert "far" in listed.stdout


def test_a_certificate_that_nobody_signed_is_told_with_what_to_do(ends: Ends) -> None:
    said = asked(f"https://127.0.0.1:{ends.proxy}", "list", SSL_CERT_FILE="/dev/null")

    assert said.returncode == 5
    assert f"the certificate of https://127.0.0.1:{ends.proxy} is not trusted: " in said.stderr
    assert "SSL_CERT_FILE=FILE" in said.stderr


def test_a_certificate_of_another_name_is_told(ends: Ends) -> None:
    said = asked(f"https://localhost:{ends.proxy}", "list", SSL_CERT_FILE=str(ends.authority))

    assert said.returncode == 5
    assert "Hostname mismatch" in said.stderr


def test_https_of_a_plain_port_is_told_with_what_to_give_instead(ends: Ends) -> None:
    said = asked(f"https://127.0.0.1:{ends.plain}", "list")

    assert said.returncode == 5
    assert "does not speak TLS" in said.stderr
    assert "give http://" in said.stderr


def test_http_of_a_tls_port_is_told(ends: Ends) -> None:
    said = asked(f"http://127.0.0.1:{ends.proxy}", "list")

    assert said.returncode == 5
    assert "give https://" in said.stderr


def test_another_path_is_told_with_what_to_give_instead(ends: Ends) -> None:
    said = asked(f"http://127.0.0.1:{ends.plain}/jobs", "list")

    assert said.returncode == 5
    assert "nothing to ask at this path" in said.stderr


def test_a_socket_that_nobody_serves_is_told_with_how_it_is_served(tmp_path: Path) -> None:
    path = tmp_path / "edge.sock"

    said = asked(f"unix:{path}", "list")

    assert said.returncode == 5
    assert f"edgecron daemon --http unix:{path}" in said.stderr
