"""Topics of help: found by their names, told apart from verbs, and fit for any screen."""

from __future__ import annotations

import pytest

from edgecron.cli.commands import COMMANDS, OTHER_WORDS
from edgecron.cli.topics import OTHER_TOPICS, TOPICS, BlockKind, page_lines, read_page, read_topic
from edgecron.views.phrases import display_width
from tests.support.cli import Edgecron

WIDTHS = (20, 40, 80, 160)


def test_help_lists_every_topic(edgecron: Edgecron) -> None:
    said = edgecron("help")

    assert all(f"\n  {name} " in said.out for name in TOPICS)
    assert "edgecron help VERB or help TOPIC" in said.out


def test_no_topic_is_called_like_a_verb() -> None:
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
    ("word", "meant"), [("trigers", "triggers"), ("celery", "apscheduler"), ("histry", "history")]
)
def test_what_is_not_known_gets_a_suggestion(edgecron: Edgecron, word: str, meant: str) -> None:
    said = edgecron("help", word)

    assert said.code == 2
    assert f"{word!r} is neither a verb nor a topic of edgecron (did you mean {meant!r}?)" in (
        said.err
    )


def test_a_topic_in_the_place_of_a_verb_is_told_where_it_is(edgecron: Edgecron) -> None:
    said = edgecron("triggers")

    assert said.code == 2
    assert "edgecron help triggers" in said.err


def test_two_words_are_refused(edgecron: Edgecron) -> None:
    said = edgecron("help", "triggers", "policies")

    assert said.code == 2
    assert "one verb or topic" in said.err


def test_programs_read_the_list_and_a_text_as_json(edgecron: Edgecron) -> None:
    listed = edgecron("help", "--json").json
    [topic] = edgecron("help", "triggers", "--json").json
    [verb] = edgecron("help", "add", "--json").json

    assert {entry["name"] for entry in listed} == {*COMMANDS, *TOPICS}
    assert {entry["kind"] for entry in listed} == {"verb", "topic"}
    assert topic == {
        "kind": "topic",
        "name": "triggers",
        "summary": TOPICS["triggers"],
        "text": read_topic("triggers"),
    }
    assert verb["kind"] == "verb"
    assert "--cron" in verb["text"]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", TOPICS)
def test_a_topic_fits_its_screen_but_for_code_and_single_words(name: str, width: int) -> None:
    blocks = [block for block in read_page(read_topic(name)) if block.kind is not BlockKind.CODE]

    lines = page_lines(blocks, width=width)

    wide = [line for line in lines if display_width(line) > width]
    assert [line for line in wide if len(line.lstrip("- ").split()) > 1] == []
    assert "**" not in "\n".join(lines)


@pytest.mark.parametrize("name", TOPICS)
def test_a_topic_loses_no_word_on_a_narrow_screen(name: str) -> None:
    blocks = [block for block in read_page(read_topic(name)) if block.kind is not BlockKind.TABLE]

    narrow, wide = (page_lines(blocks, width=width) for width in (20, 160))

    assert " ".join(narrow).split() == " ".join(wide).split()


def test_headings_stand_out_where_colours_are_wanted(edgecron: Edgecron) -> None:
    plain = edgecron("help", "triggers", "--color", "never").out
    bold = edgecron("help", "triggers", "--color", "always").out

    assert "\x1b" not in plain
    assert "\x1b[1mCRON TEXT\x1b[0m" in bold
    assert bold.replace("\x1b[1m", "").replace("\x1b[0m", "") == plain


def test_the_manual_names_every_topic(edgecron: Edgecron) -> None:
    page = edgecron("help", "--man").out

    assert "\n.SH TOPICS\n" in page
    assert all(f"\n.B {name}\n" in page for name in TOPICS)
