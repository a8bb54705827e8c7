"""Tables: each column has a heading, and the heading is a key of the command's JSON."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from edgecron.cli.output import heading, table
from edgecron.views.phrases import display_width
from tests.support.cli import Edgecron

PutTable = Callable[..., tuple[str, dict[str, object]]]

NAME = "pictures-of-the-day"
CRON = "*/5 8-18 * * MON-FRI"

# What JSON has no key for.
ONLY_FOR_PEOPLE = {"next": {"FROM NOW", "NOTE"}, "history": {"NOTE"}}

# Some columns of `stats` have words of a long key.
WORDS = {"stats": {"DURATION", "P95", "MAX", "LATE"}}

TABLES = [
    ("list",),
    ("list", "--groups"),
    ("next",),
    ("history",),
    ("prune", "--dry-run", "--history-count", "1"),
    ("import", "crontab", "CRONTAB", "--again"),
    ("config", "show"),
    ("config", "path"),
    ("stats",),
]


@pytest.fixture
def put_table(edgecron: Edgecron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PutTable:
    """Print a table on a terminal of some columns; return it, and the first object of its JSON."""
    config = tmp_path / "config.toml"
    config.write_text("[limits]\nburst = 5\n")
    monkeypatch.setenv("EDGECRON_CONFIG", str(config))
    crontab = tmp_path / "crontab"
    crontab.write_text("*/10 8-18 * * 1-5 rsync -a --delete photos/ nas:/volume1/photos/\n")
    edgecron("add", NAME, "--cron", CRON, "--group", "night:2", "--shell", "echo good")
    for _ in range(2):
        edgecron("run", NAME, "--wait")

    def put(*words: str, columns: int) -> tuple[str, dict[str, object]]:
        monkeypatch.setenv("COLUMNS", str(columns))
        line = [str(crontab) if word == "CRONTAB" else word for word in words]
        out = edgecron(*line).out
        edgecron("rm", "rsync")  # An import shows what it adds.
        json = edgecron(*line, "--json").json
        edgecron("rm", "rsync")
        return out, json[0]

    return put


def headings(out: str) -> list[str]:
    return re.split(" {2,}", out.splitlines()[0])


@pytest.mark.parametrize("words", TABLES, ids=" ".join)
def test_each_heading_is_a_key_of_the_json(put_table: PutTable, words: tuple[str, ...]) -> None:
    out, keys = put_table(*words, columns=300)

    shown = headings(out)

    others = set(shown) - set(map(heading, keys))
    in_words = {word for word in others if any(word in heading(key).split() for key in keys)}
    assert "" not in shown
    assert in_words == WORDS.get(words[0], set())
    assert others - in_words == ONLY_FOR_PEOPLE.get(words[0], set())


@pytest.mark.parametrize(
    "words",
    [words for words in TABLES if words != ("config", "path")],  # Paths are not cut.
    ids=" ".join,
)
def test_a_table_keeps_within_80_columns(put_table: PutTable, words: tuple[str, ...]) -> None:
    wide, _ = put_table(*words, columns=300)
    narrow, _ = put_table(*words, columns=80)

    # As a table: its headings take two lines at most.
    assert len(wide.splitlines()) <= len(narrow.splitlines()) <= len(wide.splitlines()) + 1
    assert max(map(display_width, narrow.splitlines())) <= 80


@pytest.mark.parametrize(
    ("key", "shown"),
    [("duration_ms", "DURATION"), ("due_at", "DUE"), ("jitter_s", "JITTER"),
     ("size_bytes", "SIZE"), ("bytes", "BYTES"), ("next_run_at", "NEXT RUN"), ("id", "ID")],
)  # fmt: skip
def test_a_heading_is_a_key_without_its_unit(key: str, shown: str) -> None:
    assert heading(key) == shown


def test_headings_are_folded_before_cells_are_cut() -> None:
    rows = [("backup", "success", "7")]
    keys = ("name", "last_status", "run_count")

    wide, narrow = (table(keys, rows, is_colored=False, width=width) for width in (80, 25))

    assert wide == ["NAME    LAST STATUS  RUN COUNT", "backup  success      7"]
    assert narrow == [
        "        LAST     RUN",
        "NAME    STATUS   COUNT",
        "backup  success  7",
    ]
