"""Count the phrasings that the project's texts avoid, and the sentences that are too long.

The texts are README, CHANGELOG, the topics of `edgecron help`, and in the package the docstrings
and the messages (texts of several words that are not SQL). The count is an alarm: a phrasing can
be right in its place, and a text without any of them can still be hard to read.

    python -m tests.support.language           the figures, the worst files and lines
    python -m tests.support.language store     every line of the files whose path has this part
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
LONG_SENTENCE_WORDS = 28
_MESSAGE_WORDS = 3


@dataclass(frozen=True)
class Paragraph:
    """Text without line breaks and code, with the line on which it begins."""

    path: str
    line: int
    text: str


@dataclass(frozen=True)
class Figures:
    """Counts over some paragraphs."""

    words: int
    phrasings: int
    sentences: int
    long_sentences: int

    @property
    def phrasings_per_1000_words(self) -> float:
        """0.0 for a text without words."""
        return 1000 * self.phrasings / self.words if self.words else 0.0

    @property
    def long_per_100_sentences(self) -> float:
        """0.0 for a text without sentences."""
        return 100 * self.long_sentences / self.sentences if self.sentences else 0.0


# A word before "where" that makes it a question or a place: "says where", "the folder where".
_PLACES = (
    "from|to|of|know|knows|says?|shows?|told|sees?|seen|finds?|decides?|and|or|is|are|exactly|"
    "folders?|files?|places?|positions?|lines?|columns?|machines?|points?|pages?|cells?"
)
_PHRASINGS = (
    # A condition or a possibility: if, when; can, might.
    rf"(?!(?:{_PLACES}) )[\w)]+[,;:]? where(?! (?:from|to)\b)",
    r"^where\b[^,?]*, (?!for\b)\w+",
    r"(?:it|this|that|there|they|these|which|what|who|one|each|[a-z]+s) may",
    # Only, also, again, immediately.
    r"alone|at once|likewise|besides|anew",
    # Running jobs, due runs: name the noun.
    r"what (?:still |has |is to |was to |already )?(?:runs?|ran|is due|was due|is running)",
    r"^(?:what|who|whatever|whoever) (?!.*\?$)[\w ]{2,20}",
    # Reports, shows, covers.
    r"tells? of|(?:is|are|was|were|be|been) (?:told|said)|told of|says? of",
    # Continues, stops, is recorded, check.
    r"goes on|go on|went on|comes? to rest|came to rest|put down|look(?:s|ed)? over",
    # Skipped, cancelled, started manually.
    r"left out|leaves? out|withdrawn|withdraws?|somebody|nobody|asked for it",
    # Unknown; "is not a"; at most N.
    r"(?:is|are|was) not known|(?:is|are|was|were) no(?= )|so many at most",
    # No engine is running; name the actor.
    r"none is alive|(?:is|are) alive|who has it|who does|of it|thereof|therefrom|therein",
)
_PHRASING = re.compile(rf"(?<![\w-])(?:{'|'.join(_PHRASINGS)})(?![\w-])", re.IGNORECASE)
# The same words with another meaning.
_PLAIN = re.compile(
    r"\b(?:(?:leav|le[ft]t)\w* [^.,;]*alone|(?:\d+|all|many|runs|jobs|both|due) at once"
    r"|(?:there|none|code) (?:is|are|was|were) no|(?:is|are|was|were) no (?:longer|more))\b",
    re.IGNORECASE,
)
_FENCE = re.compile(r"^ *```")
_NO_PROSE = re.compile(r"^\s*(?:#|\||<|!\[|\[!\[|---|===|:::)")
_ROW = re.compile(r"\w +  \w")  # a name, and what it means, in columns
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+")
_CODE = re.compile(r"``.*?``|`[^`]*`|https?://\S+")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
# A sentence can begin with a name in lower case.
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')]*\s+(?=[^a-z\s]|(?:edgecron|macOS|systemd|uvicorn)\b)")
# What makes a literal something else than a message: SQL, a pattern, a program, a format.
_SQL = re.compile(
    r"\b(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|WHERE|FROM|VALUES|PRAGMA|CREATE|ALTER|DROP|JOIN"
    r"|ORDER BY|GROUP BY|BETWEEN|COALESCE|RETURNING|ON CONFLICT|IS NULL|NOT NULL)\b|:\w+\)"
)
_NO_MESSAGE = re.compile(r"\(\?|\\[wdsb.]|[{};]\s*\n|^\s*(?:import|from) \w+|</?\w+>|==|::")


def prose_of_markdown(text: str, *, path: str) -> Iterator[Paragraph]:
    """The paragraphs and list items of a page, without headings, tables and fenced code."""
    is_fenced = False
    lines: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if _FENCE.match(line):
            is_fenced = not is_fenced
            line = ""
        elif is_fenced or _NO_PROSE.match(line):
            line = ""
        lines.append((number, line))
    yield from _paragraphs(lines, path=path)


def prose_of_docstrings(source: str, *, path: str) -> Iterator[Paragraph]:
    """The paragraphs of a module's docstrings, without what is indented in them."""
    for node in _nodes_of(source):
        if not (isinstance(node, ast.Expr) and _is_text(node.value)):
            continue
        assert isinstance(node.value, ast.Constant)
        first, *rest = str(node.value.value).splitlines() or [""]
        margin = min((_indent(line) for line in rest if line.strip()), default=0)
        lines = [(node.lineno, first.strip())]
        for number, line in enumerate(rest, node.lineno + 1):
            is_code = _indent(line) >= margin + 4 and not _ITEM.match(line)
            lines.append((number, "" if is_code else line))
        yield from _paragraphs(lines, path=path)


def prose_of_messages(source: str, *, path: str) -> Iterator[Paragraph]:
    """The literals of several words in a module that a person can come to read."""
    passed: set[ast.AST] = set()
    for node in _nodes_of(source):
        if isinstance(node, ast.Expr) and _is_text(node.value):
            passed.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            passed.update(node.values)
    for node in _nodes_of(source):
        if node in passed or not isinstance(node, ast.JoinedStr | ast.Constant):
            continue
        text = _text_of(node)
        if len(_words(text)) >= _MESSAGE_WORDS and not (
            _SQL.search(text) or _NO_MESSAGE.search(text)
        ):
            lines = [(node.lineno, line) for line in text.splitlines()]
            yield from _paragraphs(lines, path=path)


def prose_of_table(text: str, *, path: str) -> Iterator[Paragraph]:
    """The texts of several words in a TOML file of the package."""
    left: list[object] = [tomllib.loads(text)]
    while left:
        one = left.pop()
        if isinstance(one, dict | list):
            left += one.values() if isinstance(one, dict) else one
        elif len(str(one).split()) >= _MESSAGE_WORDS:
            yield Paragraph(path, 1, " ".join(str(one).split()))


@lru_cache(maxsize=1)  # A module is read for its docstrings, then for its messages.
def _nodes_of(source: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(source)))


def sentences_of(paragraph: Paragraph) -> list[str]:
    """The sentences of a paragraph; a heading or a label counts as one."""
    return [part for part in _SENTENCE_END.split(paragraph.text) if _words(part)]


def phrasings_of(paragraph: Paragraph) -> list[str]:
    """What the paragraph has of the phrasings to avoid, as often as it has them."""
    return [
        found[0].lower()
        for sentence in sentences_of(paragraph)
        for found in _PHRASING.finditer(_PLAIN.sub("...", sentence))
    ]


def long_sentences_of(paragraph: Paragraph) -> list[str]:
    """The sentences of more than LONG_SENTENCE_WORDS words."""
    return [one for one in sentences_of(paragraph) if len(_words(one)) > LONG_SENTENCE_WORDS]


def figures_of(paragraphs: Iterable[Paragraph]) -> Figures:
    """Count words, phrasings, sentences and long sentences."""
    every = list(paragraphs)
    return Figures(
        words=sum(len(_words(one.text)) for one in every),
        phrasings=sum(len(phrasings_of(one)) for one in every),
        sentences=sum(len(sentences_of(one)) for one in every),
        long_sentences=sum(len(long_sentences_of(one)) for one in every),
    )


def sum_of(figures: Iterable[Figures]) -> Figures:
    """Add up the figures of several groups."""
    every = list(figures)
    return Figures(
        words=sum(one.words for one in every),
        phrasings=sum(one.phrasings for one in every),
        sentences=sum(one.sentences for one in every),
        long_sentences=sum(one.long_sentences for one in every),
    )


def texts_of_project() -> dict[str, list[Paragraph]]:
    """The paragraphs of each group of texts."""
    groups: dict[str, list[Paragraph]] = {
        name: list(prose_of_markdown((ROOT / name).read_text(encoding="utf-8"), path=name))
        for name in ("README.md", "CHANGELOG.md")
    }
    groups["README and site"] = groups.pop("README.md")
    for file in sorted((ROOT / "packaging" / "site").glob("*.md")):
        path, text = str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")
        groups["README and site"] += prose_of_markdown(text, path=path)
    groups |= {"topics": [], "docstrings": [], "messages": []}
    for file in sorted((ROOT / "edgecron" / "cli" / "topics").glob("*.md")):
        path, text = str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")
        groups["topics"] += prose_of_markdown(text, path=path)
    for file in sorted((ROOT / "edgecron").rglob("*.py")):
        path, text = str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")
        groups["docstrings"] += prose_of_docstrings(text, path=path)
        groups["messages"] += prose_of_messages(text, path=path)
    for file in sorted((ROOT / "edgecron" / "cli").rglob("*.t[ox]*")):
        path, text = str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")
        read = prose_of_table if file.suffix == ".toml" else prose_of_markdown
        groups["messages"] += read(text, path=path)
    return groups


def _paragraphs(lines: Iterable[tuple[int, str]], *, path: str) -> Iterator[Paragraph]:
    """Join the lines of each paragraph and of each list item."""
    start, parts = 0, list[str]()
    for number, line in [*lines, (0, "")]:
        if parts and (not line.strip() or _ITEM.match(line)):
            yield Paragraph(path, start, " ".join(parts))
            parts = []
        if line.strip() and not _ROW.search(line):
            start = start if parts else number
            plain = _LINK.sub(r"\1", _ITEM.sub("", line)).strip()
            parts.append(_CODE.sub("CODE", plain).replace("*", ""))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _text_of(node: ast.JoinedStr | ast.Constant) -> str:
    """A literal's text; a value put into it counts as one word."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    parts = [part.value if isinstance(part, ast.Constant) else "X" for part in node.values]
    return "".join(map(str, parts))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _words(text: str) -> list[str]:
    return [word for word in text.split() if any(letter.isalpha() for letter in word)]


def _report(part: str | None) -> Iterator[str]:
    """The lines to print; `part` lists the lines of every file whose path has it."""
    groups = texts_of_project()
    groups["all"] = [one for paragraphs in groups.values() for one in paragraphs]
    yield f"{'text':14}{'words':>8}{'per 1,000 words':>17}{'long in 100':>13}"
    for name, paragraphs in groups.items():
        got = figures_of(paragraphs)
        yield (
            f"{name:14}{got.words:8}{got.phrasings_per_1000_words:17.2f}"
            f"{got.long_per_100_sentences:13.2f}"
        )
    found = Counter[str]()
    alarms: dict[str, list[str]] = {}
    for one in sorted(groups["all"], key=lambda one: (one.path, one.line)):
        phrasings, long = phrasings_of(one), long_sentences_of(one)
        found.update(phrasings)
        if phrasings or long:
            why = ", ".join([*phrasings, *(f"{len(_words(text))} words" for text in long)])
            alarms.setdefault(one.path, []).append(f"{one.path}:{one.line}: [{why}] {one.text}")
    yield "\nphrasings: " + ", ".join(f"{name} {count}" for name, count in found.most_common(25))
    if part is not None:
        yield from (line for path, lines in alarms.items() if part in path for line in lines)
        return
    worst = sorted(alarms, key=lambda path: -len(alarms[path]))[:20]
    yield "\nworst files:"
    yield from (f"{len(alarms[path]):5}  {path}" for path in worst)
    yield "\ntheir first lines:"
    yield from (line for path in worst[:8] for line in alarms[path][:3])


if __name__ == "__main__":
    print("\n".join(_report(sys.argv[1] if len(sys.argv) > 1 else None)))
