"""Topics of help: found by their names, told apart from commands, and fit for any screen."""

from __future__ import annotations

import re

import pytest

from edgecron.cli.commands import COMMANDS
from edgecron.cli.help_ import OTHER_TOPICS, TOPICS, format_topic, read_topic
from edgecron.cli.suggestions import OTHER_WORDS
from edgecron.views.phrases import display_width
from tests.support.cli import Edgecron
from tests.support.examples import code_of

WIDTHS = (20, 80)


def test_help_lists_every_topic(edgecron: Edgecron) -> None:
    said = edgecron("help")

    assert all(f"\n  {name} " in said.out for name in TOPICS)
    assert "edgecron help COMMAND or help TOPIC" in said.out


def test_no_topic_is_called_like_a_command() -> None:
    assert not set(TOPICS) & set(COMMANDS)
    assert not set(OTHER_TOPICS) & {*TOPICS, *COMMANDS, *OTHER_WORDS}
    assert set(OTHER_TOPICS.values()) <= set(TOPICS)


@pytest.mark.parametrize("name", TOPICS)
def test_a_topic_begins_with_its_name_and_what_the_list_says_of_it(
    edgecron: Edgecron, name: str
) -> None:
    said = edgecron("help", name)

    assert said.code == 0
    assert " ".join(said.out.split()).startswith(f"{name}: {TOPICS[name]}")


@pytest.mark.parametrize(
    ("word", "meant"), [("trigers", "triggers"), ("beat", "celery"), ("histry", "history")]
)
def test_what_is_not_known_gets_a_suggestion(edgecron: Edgecron, word: str, meant: str) -> None:
    said = edgecron("help", word)

    assert said.code == 2
    assert f"unknown command or topic {word!r}\nhint: did you mean {meant!r}?" in (said.err)


def test_a_topic_in_place_of_a_command_gets_a_hint(edgecron: Edgecron) -> None:
    said = edgecron("triggers")

    assert said.code == 2
    assert "edgecron help triggers" in said.err


def test_two_words_are_refused(edgecron: Edgecron) -> None:
    said = edgecron("help", "triggers", "policies")

    assert said.code == 2
    assert "one command or topic" in said.err


def test_programs_read_the_list_and_a_text_as_json(edgecron: Edgecron) -> None:
    listed = edgecron("help", "--json").json
    [topic] = edgecron("help", "triggers", "--json").json
    [command] = edgecron("help", "add", "--json").json

    assert {entry["name"] for entry in listed} == {*COMMANDS, *TOPICS}
    assert {entry["kind"] for entry in listed} == {"command", "topic"}
    assert topic == {
        "kind": "topic",
        "name": "triggers",
        "summary": TOPICS["triggers"],
        "text": read_topic("triggers"),
    }
    assert command["kind"] == "command"
    assert "--cron" in command["text"]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", TOPICS)
def test_a_topic_fits_its_screen_but_for_code_and_single_words(name: str, width: int) -> None:
    lines = format_topic(read_topic(name), width=width, is_colored=False).splitlines()

    wide = [line for line in lines if display_width(line) > width and not line.startswith("    ")]
    assert [line for line in wide if len(line.split()) > 1] == []


@pytest.mark.parametrize("name", TOPICS)
def test_a_topic_fits_two_screens(name: str) -> None:
    lines = format_topic(read_topic(name), width=96, is_colored=False).splitlines()

    assert len(lines) <= 96


@pytest.mark.parametrize("name", TOPICS)
def test_a_topic_keeps_its_code_as_it_is(name: str) -> None:
    markdown = read_topic(name)

    lines = format_topic(markdown, width=20, is_colored=False).splitlines()

    for block in code_of(markdown):
        assert {f"    {line}".rstrip() for line in block.lines} <= set(lines)


def test_headings_and_code_stand_out_where_colours_are_wanted(edgecron: Edgecron) -> None:
    plain = edgecron("help", "triggers", "--color", "never").out
    bold = edgecron("help", "triggers", "--color", "always").out

    assert "\x1b" not in plain
    assert "\x1b[1mIntervals\x1b[0m" in bold
    assert "\x1b[1medgecron help syntax\x1b[0m explains" in bold
    assert re.sub(r" +$", "", re.sub(r"\x1b\[[01]m", "", bold), flags=re.MULTILINE) == plain


def test_the_manual_names_every_topic(edgecron: Edgecron) -> None:
    page = edgecron("help", "--man").out

    assert "\n.SH TOPICS\n" in page
    assert all(f"\n.B {name}\n" in page for name in TOPICS)
