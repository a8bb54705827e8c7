"""https: behind a proxy with a certificate of one's own, and where that is not what answers."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgecron.client.remote_link import PLACES
from tests.support.http import serving
from tests.support.processes import BOUND_S
from tests.support.program import PROGRAM
from tests.support.tls import behind_tls, made_authority
from tests.support.tools import private_mounts

# Where OpenSSL looks of its own: that of the Python of the tests, and that of a Debian's.
DEFAULTS = {ssl.get_default_verify_paths().openssl_capath, "/usr/lib/ssl/certs"}
CHOICES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


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
        [*PROGRAM, "--url", url, *words],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=BOUND_S,
    )


class System:
    """A system that keeps those whom it trusts in places of its own: another /etc than ours."""

    def __init__(self, folder: Path) -> None:
        self.etc = folder / "etc"
        self.nothing = folder / "nothing"
        for path in (self.etc, self.nothing):
            path.mkdir()
        for name in ("passwd", "group", "nsswitch.conf", "hosts", "ld.so.cache"):
            if Path("/etc", name).is_file():
                shutil.copy(Path("/etc", name), self.etc)

    def trust(self, authority: Path, place: str) -> None:
        file = self.etc / Path(place).relative_to("/etc")
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(authority, file)

    def ask(self, url: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        hidden = {Path(each).parent for each in DEFAULTS} - {Path("/etc/ssl")}
        mounts = [
            f"mount --bind {self.nothing} {each} &&" for each in sorted(hidden) if each.is_dir()
        ]
        script = f'{" ".join(mounts)} mount --bind {self.etc} /etc && exec "$@"'
        own = {name: value for name, value in os.environ.items() if name not in CHOICES}
        return subprocess.run(
            [
                *private_mounts(),
                *("sh", "-c", script, "sh", *PROGRAM, "--url", url, *words),
            ],
            env={**own, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=BOUND_S,
        )


@pytest.fixture
def system(tmp_path: Path) -> System:
    return System(tmp_path)


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
    assert "has nothing at this path" in said.stderr


def test_a_socket_that_nobody_serves_is_told_with_how_it_is_served(tmp_path: Path) -> None:
    path = tmp_path / "edge.sock"

    said = asked(f"unix:{path}", "list")

    assert said.returncode == 5
    assert f"edgecron daemon --http unix:{path}" in said.stderr


@pytest.mark.parametrize("place", PLACES)
def test_whom_the_system_trusts_is_found_wherever_it_keeps_them(
    place: str, ends: Ends, system: System
) -> None:
    system.trust(ends.authority, place)

    said = system.ask(f"https://127.0.0.1:{ends.proxy}", "list")

    assert said.returncode == 0, said.stderr


def test_a_file_of_the_system_that_names_nobody_is_passed_over(ends: Ends, system: System) -> None:
    system.trust(Path("/dev/null"), PLACES[0])
    system.trust(ends.authority, PLACES[1])

    said = system.ask(f"https://127.0.0.1:{ends.proxy}", "list")

    assert said.returncode == 0, said.stderr


@pytest.mark.parametrize("variable", CHOICES)
def test_what_somebody_has_named_is_trusted_alone(
    variable: str, ends: Ends, system: System
) -> None:
    system.trust(ends.authority, PLACES[0])

    said = system.ask(f"https://127.0.0.1:{ends.proxy}", "list", **{variable: "/dev/null"})

    assert said.returncode == 5
    assert "if the certificate is your own, name it" in said.stderr


def test_a_system_that_names_nobody_is_told_with_what_to_do(ends: Ends, system: System) -> None:
    said = system.ask(f"https://127.0.0.1:{ends.proxy}", "list")

    assert said.returncode == 5
    assert "this machine trusts no issuer, install ca-certificates" in said.stderr
