"""The site: built from the texts of the repository, whole, and on its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from edgecron.cli.commands import COMMANDS
from edgecron.cli.help_ import TOPICS
from edgecron.model.options import OPTIONS
from tests.support.sharing import made_once

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "packaging/site/build"
PAGES = ROOT / "packaging/site/pages.py"
_LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "srcset"}


class Loads(HTMLParser):
    """What a page loads, where it leads to, and its anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.anchors.add(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in _LOADED and _LOADED[tag] in given:
            self.loaded.append(given[_LOADED[tag]])


def build(folder: Path) -> None:
    subprocess.run(
        [BUILD, folder],
        env={**os.environ, "PYTHON": sys.executable},
        check=True,
        capture_output=True,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The text of each file of the site, pictures excepted."""

    def read() -> dict[str, str]:
        folder = tmp_path_factory.mktemp("site")
        build(folder)
        files = [*folder.glob("*.html"), *folder.glob("*.js"), *folder.glob("*.css")]
        pictures = {one.name: "" for one in folder.glob("*.png")}
        return pictures | {one.name: one.read_text(encoding="utf-8") for one in files}

    return made_once("site", read)


@pytest.fixture(scope="module")
def pages(site: dict[str, str]) -> dict[str, Loads]:
    found = {}
    for name, text in site.items():
        if name.endswith(".html"):
            found[name] = Loads()
            found[name].feed(text)
    return found


def test_the_site_has_a_page_for_each_topic_and_command(pages: dict[str, Loads]) -> None:
    wanted = {*TOPICS, *(f"command-{name}" for name in COMMANDS), "index", "options", "http-api"}
    wanted |= {"reliability", "performance", "architecture", "changelog"}

    assert {f"{name}.html" for name in wanted} <= set(pages)


def test_no_page_loads_anything_from_elsewhere(
    site: dict[str, str], pages: dict[str, Loads]
) -> None:
    loaded = {target for page in pages.values() for target in page.loaded}

    assert {target for target in loaded if target not in site} == {"data:,"}
    assert not re.search(r"url\(|@import", site["style.css"])
    assert not re.search(r"fetch\(|XMLHttpRequest|https?:", site["search.js"])


def test_each_link_leads_somewhere(pages: dict[str, Loads]) -> None:
    dead = []
    for name, page in pages.items():
        for link in page.links:
            file, _, anchor = link.partition("#")
            target = pages.get(file or name)
            if not link.startswith("https://") and (
                target is None or (anchor and anchor not in target.anchors)
            ):
                dead.append(f"{name}: {link}")

    assert dead == []


def test_a_reference_to_a_topic_is_a_link(site: dict[str, str]) -> None:
    assert '<a href="zones.html"><code>edgecron help zones</code></a>' in site["triggers.html"]


def test_the_page_of_options_has_each_option(site: dict[str, str]) -> None:
    missing = [
        one.option
        for one in OPTIONS.values()
        if one.option and f"<code>{one.option}</code>" not in site["options.html"]
    ]

    assert missing == []


def test_the_search_knows_each_page_by_its_headings(
    site: dict[str, str], pages: dict[str, Loads]
) -> None:
    text = site["search-index.js"].removeprefix("const ENTRIES = ").removesuffix(";\n")
    entries = json.loads(text)

    assert {one["where"].partition("#")[0] for one in entries} == set(pages)
    for entry in entries:
        file, _, anchor = entry["where"].partition("#")
        assert not anchor or anchor in pages[file].anchors
    assert any("anacron" in one["text"] and one["head"] for one in entries)


@pytest.mark.slow
@pytest.mark.needs("chromium", "chromedriver")
@pytest.mark.needs_package("selenium")
def test_a_browser_finds_a_page_by_words_without_a_server(tmp_path: Path) -> None:
    from selenium import webdriver

    build(tmp_path)
    options = webdriver.ChromeOptions()
    for option in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(option)
    browser = webdriver.Chrome(
        service=webdriver.ChromeService(shutil.which("chromedriver")), options=options
    )
    try:
        browser.get((tmp_path / "index.html").as_uri())
        browser.find_element("tag name", "body").send_keys("/")
        browser.switch_to.active_element.send_keys("missed laptop")
        browser.switch_to.active_element.send_keys("\n")

        assert "faq.html#" in browser.current_url
        assert "laptop" in browser.find_element("tag name", "main").text
        assert browser.get_log("browser") == []
    finally:
        browser.quit()


def test_without_the_extra_the_build_says_what_to_install() -> None:
    code = "import runpy, sys; sys.modules['starlette'] = None; runpy.run_path(sys.argv[1])"

    ended = subprocess.run(
        [sys.executable, "-c", code, str(PAGES)], capture_output=True, text=True, check=False
    )

    assert ended.returncode == 1
    assert ended.stderr.startswith(f"error: {sys.executable} has no module starlette")
    assert "hint: pip install '.[http]'" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_link_that_leads_nowhere_stops_the_build(tmp_path: Path) -> None:
    code = (
        "import runpy, sys; site = runpy.run_path(sys.argv[1]);"
        "page = site['Page'](name='a', title='A', about='', group='g', body=sys.argv[2]);"
        "site['check_links']([page])"
    )
    for body in ('<a href="b.html">', '<a href="#x">', '<img src="none.png">'):
        ended = subprocess.run(
            [sys.executable, "-c", code, str(PAGES), body], capture_output=True, text=True
        )
        assert ended.returncode == 1
        assert "Broken: a: " in ended.stderr
