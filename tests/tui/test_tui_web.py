"""The dashboard in a browser: where it is served, to whom, and what is left when it ends.

What needs textual-serve is skipped where that is not installed, and what needs a browser where
there is no Chromium with its driver, or no selenium.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from edgecron.base.errors import UsageError
from edgecron.client import Client
from edgecron.tui.web import (
    WebAddress,
    check_served,
    is_request_allowed,
    read_address,
    session_command,
)
from tests.support.accounts import as_root
from tests.support.otherusers import NOBODY, ask_as
from tests.support.program import PROGRAM
from tests.support.specs import make_spec
from tests.support.terminal import BOUND_S

LOCAL = WebAddress("127.0.0.1", 8000)
OPEN = WebAddress("0.0.0.0", 8000)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("8080", WebAddress("127.0.0.1", 8080)),
        ("0.0.0.0:80", WebAddress("0.0.0.0", 80)),
        ("[::1]:8000", WebAddress("::1", 8000)),
        ("box.example:8000", WebAddress("box.example", 8000)),
    ],
)
def test_a_place_is_a_port_or_a_host_and_a_port(text: str, place: WebAddress) -> None:
    assert read_address(text) == place


@pytest.mark.parametrize("text", ["", "host", "0", "65536", "a b:1", "http://x:1", "1:2:3", "x:-1"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--web is"):
        read_address(text)


@pytest.mark.parametrize(
    ("place", "host", "origin", "may"),
    [
        (LOCAL, "127.0.0.1:8000", None, True),
        (LOCAL, "localhost:8000", "http://localhost:8000", True),
        (LOCAL, "[::1]:8000", "http://[::1]:8000", True),
        (LOCAL, "127.0.0.1:8000", "http://evil.example", False),
        (LOCAL, "127.0.0.1:8000", "http://127.0.0.1:9000", False),
        (LOCAL, "127.0.0.1:8000", "null", False),
        (LOCAL, "evil.example:8000", "http://evil.example:8000", False),
        (LOCAL, "evil.example", None, False),
        (OPEN, "box.example:8000", "http://box.example:8000", True),
        (OPEN, "box.example:8000", "http://evil.example", False),
    ],
)
def test_pages_of_other_sites_may_ask_nothing(
    place: WebAddress, host: str, origin: str | None, may: bool
) -> None:
    assert is_request_allowed(place, host=host, origin=origin) is may


def test_no_word_of_the_session_s_command_is_read_by_the_shell() -> None:
    line = session_command(("--config", "it's", "--db", "/tmp/$(touch x)/a b.db"), color=None)

    assert "'/tmp/$(touch x)/a b.db'" in line
    assert line.startswith("exec ")


def test_a_missing_package_is_told_with_how_to_install_it(tmp_path: Path) -> None:
    (tmp_path / "textual_serve.py").write_text("raise ImportError('as where it is not')")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run(
        [*PROGRAM, "--db", str(tmp_path / "x.db"), "tui", "--web"],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 1
    assert "[web]'" in ended.stderr


def test_two_dashboards_at_once_are_refused() -> None:
    ended = subprocess.run(
        [*PROGRAM, "tui", "--web", "--plain"], capture_output=True, text=True, check=False
    )

    assert ended.returncode == 2


def free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def served(
    folder: Path, *words: str, host: str = "127.0.0.1"
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The dashboard of a database with one schedule, at a port that was free."""
    place = f"{host}:{free_port()}"
    environment = {
        **{key: value for key, value in os.environ.items() if key != "NO_COLOR"},
        "EDGECRON_DB": str(folder / "edgecron.db"),
    }
    with Client(folder / "edgecron.db") as client:
        client.add(make_spec("backup", "every 1h"))
    process = subprocess.Popen(
        [*PROGRAM, "tui", "--web", place, *words],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        assert place in process.stderr.readline()
        yield place, process
    finally:
        process.kill()
        process.communicate()


async def page(place: str, until: bytes) -> Any:
    """The bytes that a page gets until it shows something, and then until it is closed."""
    import aiohttp

    shown = b""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"http://{place}/ws?width=80&height=24") as socket_,
    ):
        async for message in socket_:
            shown += message.data if isinstance(message.data, bytes) else b""
            if until in shown:
                return shown, socket_.close_code
    return shown, None


def test_a_page_shows_the_dashboard_in_colours(tmp_path: Path) -> None:
    with served(tmp_path) as (place, process):
        shown, _ = asyncio.run(asyncio.wait_for(page(place, b"backup"), BOUND_S))
        process.terminate()
        code = process.wait(BOUND_S)

    assert b"backup" in shown
    assert b"\x1b[38;2;" in shown
    assert code == 0


@as_root
def test_another_user_of_the_machine_is_not_let_in(tmp_path: Path) -> None:
    with served(tmp_path) as (place, _):
        refused = [ask_as(NOBODY, f"http://{place}{path}") for path in ("/", "/ws")]
        welcome = ask_as(0, f"http://{place}/")

    assert [heard.status for heard in refused] == [403, 403]
    assert "belongs to another user" in refused[0].body
    assert welcome.status == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "box.example", "127.evil.example"])
def test_a_place_that_other_machines_reach_needs_a_token(host: str) -> None:
    address = read_address(f"{host}:8000")

    with pytest.raises(UsageError, match="is reachable from other machines"):
        check_served(address, has_token=False)
    check_served(address, has_token=True)


def test_nothing_is_served_where_a_token_is_needed_and_not_given(tmp_path: Path) -> None:
    ended = subprocess.run(
        [*PROGRAM, "--db", str(tmp_path / "x.db"), "tui", "--web", f"0.0.0.0:{free_port()}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=BOUND_S,
    )

    assert ended.returncode == 2
    assert "is reachable from other machines" in ended.stderr
    assert "--token-file FILE" in ended.stderr


def write_token(folder: Path) -> tuple[str, str]:
    """A token, and the file that holds it."""
    path, token = folder / "token", "a-word-that-nobody-guesses"
    path.touch(mode=0o600)
    path.write_text(token)
    return token, str(path)


def test_without_the_token_no_page_and_no_session_is_given(tmp_path: Path) -> None:
    async def story(url: str, token: str) -> list[int]:
        import aiohttp

        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
            asked = [
                session.get(f"{url}/"),
                session.get(f"{url}/ws?width=80&height=24"),
                session.get(f"{url}/static/js/textual.js"),
                session.get(f"{url}/", headers={"Authorization": f"Bearer {token[:-1]}"}),
                session.get(f"{url}/", headers={"Cookie": f"edgecron={token}"}),
                session.post(f"{url}/", data={"token": token.upper()}),
                session.post(f"{url}/", data={"token": token}, headers={"Origin": "http://evil"}),
            ]
            statuses = []
            for request in asked:
                async with request as answer:
                    statuses.append(answer.status)
                    assert "backup" not in await answer.text()
            return statuses

    token, path = write_token(tmp_path)
    with served(tmp_path, "--token-file", path, host="0.0.0.0") as (place, _):
        url = f"http://127.0.0.1:{place.rpartition(':')[2]}"
        statuses = asyncio.run(asyncio.wait_for(story(url, token), BOUND_S))

    assert statuses == [401, 401, 401, 401, 401, 401, 403]


def test_a_browser_that_has_sent_the_token_sees_the_dashboard(tmp_path: Path) -> None:
    async def story(url: str, token: str) -> bytes:
        import aiohttp

        jar = aiohttp.CookieJar(unsafe=True)  # It keeps cookies of addresses, too.
        async with aiohttp.ClientSession(cookie_jar=jar) as session:
            async with session.post(f"{url}/", data={"token": f" {token}\n"}) as answer:
                assert answer.status == 200
            shown = b""
            async with session.ws_connect(f"{url}/ws?width=80&height=24") as socket_:
                async for message in socket_:
                    shown += message.data if isinstance(message.data, bytes) else b""
                    if b"backup" in shown:
                        break
            return shown

    token, path = write_token(tmp_path)
    with served(tmp_path, "--token-file", path, host="0.0.0.0") as (place, _):
        url = f"http://127.0.0.1:{place.rpartition(':')[2]}"
        shown = asyncio.run(asyncio.wait_for(story(url, token), BOUND_S))

    assert b"backup" in shown


@as_root
def test_with_a_token_every_user_of_the_machine_is_asked_for_it(tmp_path: Path) -> None:
    _, path = write_token(tmp_path)
    with served(tmp_path, "--token-file", path) as (place, _):
        refused = ask_as(NOBODY, f"http://{place}/")
        own = ask_as(0, f"http://{place}/")

    assert [refused.status, own.status] == [401, 401]


@pytest.mark.needs("ps")
def test_no_session_outlives_its_server(tmp_path: Path) -> None:
    def sessions() -> list[str]:
        database = str(tmp_path / "edgecron.db")
        listed = subprocess.run(
            ["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True
        )
        return [line for line in listed.stdout.splitlines() if database in line]

    async def story(place: str, process: subprocess.Popen[str]) -> None:
        import aiohttp

        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"http://{place}/ws") as socket_,
        ):
            await socket_.receive()
            assert sessions()
            process.kill()
            for _ in range(200):
                if not sessions():
                    return
                await asyncio.sleep(BOUND_S / 200)
            raise AssertionError(sessions())

    with served(tmp_path) as (place, process):
        asyncio.run(story(place, process))


@pytest.mark.slow
@pytest.mark.needs("chromium", "chromedriver")
@pytest.mark.needs_package("selenium")
def test_a_browser_shows_it_and_its_keys_reach_it(tmp_path: Path) -> None:
    from selenium import webdriver
    from selenium.webdriver.support.ui import WebDriverWait

    options = webdriver.ChromeOptions()
    for option in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(option)
    with served(tmp_path) as (place, _):
        browser = webdriver.Chrome(
            service=webdriver.ChromeService(shutil.which("chromedriver")), options=options
        )
        try:
            browser.get(f"http://{place}/")
            # It hides its shade with the first byte that the dashboard draws.
            WebDriverWait(browser, BOUND_S).until(
                lambda seen: (
                    "-first-byte"
                    in str(seen.find_element("css selector", "body").get_attribute("class"))
                )
            )
            browser.switch_to.active_element.send_keys("q")
            WebDriverWait(browser, BOUND_S).until(
                lambda seen: (
                    "-closed"
                    in str(seen.find_element("css selector", "body").get_attribute("class"))
                )
            )
        finally:
            browser.quit()


def test_the_page_has_a_title_and_asks_no_other_site(tmp_path: Path) -> None:
    async def story(place: str) -> str:
        import aiohttp

        async with aiohttp.ClientSession() as session, session.get(f"http://{place}/") as answer:
            return await answer.text()

    with served(tmp_path) as (place, _):
        html = asyncio.run(asyncio.wait_for(story(place), BOUND_S))

    assert "<title>edgecron</title>" in html
    assert "googleapis" not in html
    assert set(re.findall(r"https?://([^/\"']+)", html)) <= {place, "www.w3.org"}
    assert ".focus()" in html
