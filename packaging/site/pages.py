"""Make the site: static pages of all that edgecron says about itself.

    packaging/site/build [FOLDER]     write the pages into FOLDER (default: dist/site)

The pages work from a file, and ask no other site for anything. Each text has one source: README.md,
the topics and the command line's own help, the table of options, the OpenAPI document, the
architecture, and the two pages of this folder. Needs edgecron[http] in the Python that runs this.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

try:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

    from edgecron import __version__
    from edgecron.cli.commands import COMMANDS
    from edgecron.cli.help_ import TOPIC_GROUPS, TOPICS, read_topic
    from edgecron.cli.parser import parser_of
    from edgecron.http.app import opener_of
    from edgecron.http.client_threads import ChangeWatch
    from edgecron.http.openapi import describe
    from edgecron.http.routes import make_routes
    from edgecron.model.options import OPTIONS, Group
except ModuleNotFoundError as missing:
    sys.exit(
        f"error: {sys.executable} has no module {missing.name}\n"
        "hint: pip install '.[http]', or name a Python that has it: PYTHON=... packaging/site/build"
    )

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ASSETS = ("style.css", "search.js")
# Pages that are a file of the repository, by the name of the page.
FILES = {
    "index": ROOT / "README.md",
    "reliability": HERE / "reliability.md",
    "performance": HERE / "performance.md",
    "architecture": ROOT / "edgecron/ARCHITECTURE.md",
    "decisions": ROOT / ".github/decisions.md",
    "contributing": ROOT / ".github/CONTRIBUTING.md",
    "changelog": ROOT / "CHANGELOG.md",
}
ABOUT = "edgecron"
MAINTAINERS = "for contributors"
REFERENCE = "reference"
MOVING = "moving from other schedulers"
_TITLES = {
    "index": "What it is",
    "reliability": "How reliable it is",
    "performance": "How fast it is",
    "architecture": "Architecture",
    "decisions": "Decisions",
    "contributing": "Contributing",
    "changelog": "Changelog",
}
_FIRST = ("index", "reliability", "performance")
_SEE_HELP = re.compile(r"(?:edgecron )?help ([a-z-]+)")
_SLUG = re.compile(r"[^a-z0-9]+")


class Broken(Exception):
    """A link that leads nowhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page before it has its frame. `about` is the sentence that search engines show."""

    name: str
    title: str
    about: str
    group: str
    body: str


def main(words: list[str]) -> int:
    """Write all pages; 1 if a link of one leads nowhere."""
    if len(words) > 1 or any(word.startswith("-") for word in words):
        print(__doc__, file=sys.stderr)
        return 0 if words[:1] in (["-h"], ["--help"]) else 2
    folder = Path(words[0]) if words else ROOT / "dist/site"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    try:
        pages = list(read_pages())
        for page in pages:
            (folder / f"{page.name}.html").write_text(framed(page, pages), encoding="utf-8")
        check_links(pages)
    except Broken as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for name in ASSETS:
        shutil.copy(HERE / name, folder)
    for picture in pictures_of(pages):
        shutil.copy(ROOT / "packaging/pictures" / picture, folder)
    index = json.dumps([entry for page in pages for entry in entries_of(page)], ensure_ascii=False)
    (folder / "search-index.js").write_text(f"const ENTRIES = {index};\n", encoding="utf-8")
    print(f"{folder}: {len(pages)} pages")
    return 0


def read_pages() -> Iterator[Page]:
    """Return all pages in the order of the menu."""
    for name in _FIRST:
        yield file_page(name, group=ABOUT)
    for group, topics in TOPIC_GROUPS.items():
        for name, summary in topics.items():
            yield topic_page(name, summary, group)
    for command in COMMANDS:
        yield command_page(command)
    yield options_page()
    yield http_page()
    for name in FILES:
        if name not in _FIRST:
            yield file_page(name, group=MAINTAINERS)


def file_page(name: str, *, group: str) -> Page:
    """Return the page of a Markdown file of the repository."""
    text = FILES[name].read_text(encoding="utf-8")
    about = f"{_TITLES[name]}: cron that you can see, trust and embed"
    return Page(name=name, title=_TITLES[name], about=about, group=group, body=rendered(text))


def topic_page(name: str, summary: str, group: str) -> Page:
    """Return the page of a topic. Pages about moving begin with how to try edgecron."""
    text = read_topic(name)
    _, _, rest = text.partition("\n")
    # A topic's first line is its name and its summary.
    heading = summary if summary.startswith("edgecron") else f"{summary[0].upper()}{summary[1:]}"
    body = rendered(f"# {heading}\n{rest}")
    if group == MOVING:
        body += (
            '<p class="start">Try it first: <a href="install.html">install edgecron</a>, then run '
            "<code>edgecron demo</code>. "
            '<a href="quickstart.html">Five minutes to a first schedule</a></p>\n'
        )
    return Page(name=name, title=heading, about=f"{heading}: edgecron", group=group, body=body)


def command_page(command: str) -> Page:
    """Return the page of a command: its help, as the command line writes it."""
    entry = COMMANDS[command]
    text = html.escape(parser_of(command, shows_all=True)[1].format_help().rstrip("\n"))
    others = ", ".join(
        f'<a href="{target}.html"><code>{name}</code></a>' for name, target in named_in(entry.see)
    )
    body = f"<h1><code>edgecron {command}</code></h1>\n<p>{html.escape(entry.summary)}.</p>\n"
    body += f"<pre><code>{text}</code></pre>\n"
    if others:
        body += f"<p>See also: {others}</p>\n"
    title, about = f"edgecron {command}", f"edgecron {command}: {entry.summary}"
    name = command_file(command)
    return Page(name=name, title=title, about=about, group="commands", body=body)


def named_in(see: str) -> Iterator[tuple[str, str]]:
    """Return the commands and topics of a "see also" with their pages."""
    commands, _, topics = see.partition(";")
    for word in re.findall(r"[a-z-]+", commands):
        if word in COMMANDS:
            yield word, command_file(word)
    for word in re.findall(r"[a-z-]+", f"{commands if 'topic' in commands else ''} {topics}"):
        if word in TOPICS and (word not in COMMANDS or "topic" in see):
            yield f"help {word}", word


def command_file(command: str) -> str:
    """Return the name of a command's page; topics have the names without a prefix."""
    return f"command-{command}"


def options_page() -> Page:
    """Return the page of all options of a schedule, from the one table of options."""
    parts = ["# Options of a schedule", "", _OPTIONS_TEXT]
    for group in Group:
        parts += ["", f"## {group.partition(' (')[0].capitalize()}", ""]
        parts += ["| option | TOML, JSON, HTTP | what it does | default |", "|---|---|---|---|"]
        for one in OPTIONS.values():
            if one.group is group and (one.option or one.name):
                cells = (code(one.option), code(one.name), one.help, one.default)
                parts.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    title, body = "Options of a schedule", rendered("\n".join(parts))
    return Page(name="options", title=title, about=f"{title}: edgecron", group=REFERENCE, body=body)


_OPTIONS_TEXT = """\
Each option has one name. The command line writes it with dashes, TOML documents, JSON and HTTP with
underscores. `edgecron config show defaults` lists your own defaults."""


def code(text: str) -> str:
    """Return a text as code; nothing for no text."""
    return f"`{text}`" if text else ""


def http_page() -> Page:
    """Return the page of the HTTP API, from its OpenAPI document."""
    routes = make_routes(ChangeWatch(opener_of(None)))
    document = describe(routes, has_token=True)
    parts = ["# HTTP API", "", document["info"]["description"]]
    parts += ["", "`edgecron daemon --http` serves it: see `edgecron help http`. The document of a"]
    parts += ["server is at `/api/v1/openapi.json`."]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts += ["", f"## `{method.upper()} {path}`", "", f"{operation['summary']}."]
            parts += parameters_of(operation["parameters"])
            statuses = ", ".join(sorted(operation["responses"]))
            parts += ["", f"Answers: {statuses}."]
    title, body = "HTTP API", rendered("\n".join(parts))
    about = "Every route of edgecron's HTTP API"
    return Page(name="http-api", title=title, about=about, group=REFERENCE, body=body)


def parameters_of(parameters: list[Mapping[str, Any]]) -> list[str]:
    """Return the table of an operation's parameters."""
    if not parameters:
        return []
    rows = ["", "| parameter | in | what it is |", "|---|---|---|"]
    for one in parameters:
        words = one.get("description") or one["schema"].get("description", "")
        rows.append(f"| `{one['name']}` | {one['in']} | {words.replace('|', '&#124;')} |")
    return rows


def rendered(text: str) -> str:
    """Return Markdown as HTML: headings have anchors, and `help TOPIC` leads to that topic."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(text)
    taken: set[str] = set()
    for number, token in enumerate(tokens):
        if token.type == "heading_open":
            slug = slug_of(tokens[number + 1].content, taken)
            token.attrs["id"] = slug
        if token.type == "inline" and token.children:
            token.children = list(linked(token.children))
    shown = str(parser.renderer.render(tokens, parser.options, {}))
    shown = re.sub(
        r'(<h[23] id="([^"]+)">.*?)(</h[23]>)', r'\1<a class="here" href="#\2">#</a>\3', shown
    )
    # A figure and its unit stay on one line, and so does the name of an option.
    shown = re.sub(
        r"<td>((?:<strong>)?[^<]{1,12}(?:</strong>)?|<code>[^<]{1,20}</code>)</td>",
        r'<td class="short">\1</td>',
        shown,
    )
    return shown.replace("<table>", '<div class="wide"><table>').replace(
        "</table>", "</table></div>"
    )


def slug_of(heading: str, taken: set[str]) -> str:
    """Return the anchor of a heading, and remember it."""
    slug = _SLUG.sub("-", heading.lower()).strip("-") or "part"
    found, number = slug, 1
    while found in taken:
        number += 1
        found = f"{slug}-{number}"
    taken.add(found)
    return found


def linked(children: list[Token]) -> Iterator[Token]:
    """Lead from `help TOPIC` to the topic, and from files of the repository to their pages."""
    pages = {str(path.relative_to(ROOT)): f"{name}.html" for name, path in FILES.items()}
    for child in children:
        if child.type == "link_open":
            target = str(child.attrs["href"])
            child.attrs["href"] = pages.get(target, target)
        if child.type == "image":
            child.attrs["src"] = Path(str(child.attrs["src"])).name
        name = target_of(child.content) if child.type == "code_inline" else None
        if name is None:
            yield child
            continue
        yield Token("link_open", "a", 1, attrs={"href": f"{name}.html"})
        yield child
        yield Token("link_close", "a", -1)


def target_of(words: str) -> str | None:
    """Return the page that a piece of code means; None if it means none."""
    found = _SEE_HELP.fullmatch(words)
    if found is None:
        return None
    if found[1] in TOPICS:
        return found[1]
    return command_file(found[1]) if found[1] in COMMANDS else None


def framed(page: Page, pages: list[Page]) -> str:
    """Return a whole page with menu and search."""
    template = Template((HERE / "page.html").read_text(encoding="utf-8"))
    title = page.title if page.name == "index" else f"{page.title} · edgecron"
    return template.substitute(
        title=html.escape(title),
        about=html.escape(page.about),
        menu=menu(page, pages),
        body=page.body,
        version=html.escape(__version__),
    )


def menu(page: Page, pages: list[Page]) -> str:
    """Return the list of all pages; the group of this one is open."""
    parts: list[str] = []
    for group in dict.fromkeys(one.group for one in pages):
        is_open = " open" if group in (page.group, ABOUT) else ""
        name = html.escape(f"{group[0].upper()}{group[1:]}" if group != ABOUT else group)
        parts.append(f"<details{is_open}><summary>{name}</summary><ul>")
        for one in pages:
            if one.group == group:
                here = ' aria-current="page"' if one is page else ""
                words = one.name if one.name in TOPICS else one.title
                parts.append(f'<li><a href="{one.name}.html"{here}>{html.escape(words)}</a></li>')
        parts.append("</ul></details>")
    return "\n".join(parts)


def entries_of(page: Page) -> Iterator[dict[str, str]]:
    """Return what the search finds: each part of a page by its heading."""
    parts = re.split(r'<h[1-3](?: id="([^"]*)")?>(.*?)</h[1-3]>', page.body, flags=re.DOTALL)
    for number in range(1, len(parts), 3):
        anchor, heading, body = parts[number : number + 3]
        words = " ".join(plain(body).split())
        head = plain(re.sub(r'<a class="here".*?</a>', "", heading)).strip()
        where = f"{page.name}.html" + (f"#{anchor}" if anchor and number > 1 else "")
        yield {"page": page.title, "head": head, "where": where, "text": words}


def plain(markup: str) -> str:
    """Return the text of HTML."""
    return html.unescape(re.sub(r"<[^>]+>", " ", markup))


def pictures_of(pages: list[Page]) -> set[str]:
    """Return the names of all pictures."""
    return {name for page in pages for name in re.findall(r'<img src="([^"]+)"', page.body)}


def check_links(pages: list[Page]) -> None:
    """Raise Broken for a link to a page, an anchor or a picture that does not exist."""
    anchors = {page.name: set(re.findall(r' id="([^"]+)"', page.body)) for page in pages}
    for page in pages:
        for target in re.findall(r'href="([^"]+)"', page.body):
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = html.unescape(target).partition("#")
            name = file.removesuffix(".html") or page.name
            if name not in anchors or (anchor and anchor not in anchors[name]):
                raise Broken(f"{page.name}: a link leads nowhere: {target}")
        for picture in pictures_of([page]):
            if not (ROOT / "packaging/pictures" / picture).is_file():
                raise Broken(f"{page.name}: there is no picture {picture}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
