"""The project's texts are plain: few of the phrasings that readers stumble over, short sentences.

`python -m tests.support.language` prints the figures and the lines to rewrite.
"""

from __future__ import annotations

import textwrap

import pytest

from tests.support import language
from tests.support.language import Figures, Paragraph
from tests.support.sharing import made_once

# The most phrasings per 1,000 words, and long sentences in 100. Lower these figures when a
# group reaches less; never raise one.
MOST_PHRASINGS = {
    "README and site": 0.5,
    "CHANGELOG.md": 0,
    "topics": 0.25,
    "docstrings": 0.25,
    "messages": 0.25,
    "all": 0.25,
}
MOST_LONG_SENTENCES = 1


@pytest.fixture(scope="module")
def figures() -> dict[str, Figures]:
    return made_once("language", _count)


def _count() -> dict[str, Figures]:
    texts = language.texts_of_project()
    found = {name: language.figures_of(paragraphs) for name, paragraphs in texts.items()}
    return {**found, "all": language.sum_of(found.values())}


@pytest.mark.parametrize("name", MOST_PHRASINGS)
def test_texts_have_few_phrasings_to_avoid_and_few_long_sentences(
    figures: dict[str, Figures], name: str
) -> None:
    got = figures[name]

    assert got.words > 400, "the texts were not found"
    hint = "python -m tests.support.language"
    assert got.phrasings_per_1000_words <= MOST_PHRASINGS[name], f"see the lines with: {hint}"
    assert got.long_per_100_sentences <= MOST_LONG_SENTENCES, f"see the lines with: {hint}"


def phrasings(text: str) -> list[str]:
    return language.phrasings_of(Paragraph("a.md", 1, text))


@pytest.mark.parametrize(
    "text",
    [
        "The run fails where its command is missing.",
        "Where the file is missing, edgecron makes one.",
        "What runs now is left as it is.",
        "The database is no longer there, and this is no mistake.",
        "Engines go on meanwhile.",
        "Root alone can read the file.",
        "Nobody may edit it.",
        "The owner is told of each change.",
        "What has ended stays for a week.",
    ],
)
def test_a_phrasing_to_avoid_is_found(text: str) -> None:
    assert len(phrasings(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "The folder where the database lies.",
        "The error says where the value came from.",
        "What is an engine?",
        "The engine no longer runs.",
        "There is no engine, and None is no limit.",
        "Eight runs at once, at most.",
        "The command leaves the file alone.",
        "A number of its own, in spite of its size.",
    ],
)
def test_a_plain_text_is_no_alarm(text: str) -> None:
    assert phrasings(text) == []


def test_a_page_is_read_without_headings_tables_and_code() -> None:
    page = """\
        # What runs

        One `SELECT what runs`,
        in [two lines](http://x).
        - An item

        | what runs | nobody |
        ```sh
        what runs
        ```
        """

    read = list(language.prose_of_markdown(textwrap.dedent(page), path="a.md"))

    assert read == [
        Paragraph("a.md", 3, "One CODE, in two lines."),
        Paragraph("a.md", 5, "An item"),
    ]


def test_docstrings_are_told_from_messages_and_from_sql() -> None:
    source = '''\
def add(name: str) -> None:
    """Add it.

    More words,
    on two lines.

        an example = 1
    """
    print(f"error: no {name} here")
    print("SELECT id FROM runs WHERE state = 1", "one word")
'''

    docstrings = list(language.prose_of_docstrings(source, path="a.py"))
    messages = list(language.prose_of_messages(source, path="a.py"))

    assert [(one.line, one.text) for one in docstrings] == [
        (2, "Add it."),
        (4, "More words, on two lines."),
    ]
    assert messages == [Paragraph("a.py", 9, "error: no X here")]


def test_a_sentence_of_29_words_is_long() -> None:
    sentences = [" ".join(["word"] * words) + "." for words in (28, 29)]
    paragraph = Paragraph("a.md", 1, " ".join(one.capitalize() for one in sentences))

    got = language.figures_of([paragraph])

    assert (got.words, got.sentences, got.long_sentences) == (57, 2, 1)
    assert got.long_per_100_sentences == 50


def test_a_sentence_can_begin_with_a_name_in_lower_case() -> None:
    read = language.sentences_of(Paragraph("a.md", 1, "It stops. edgecron waits, e.g. at night."))

    assert read == ["It stops.", "edgecron waits, e.g. at night."]


def test_figures_of_an_empty_text_are_zero() -> None:
    got = language.figures_of([])

    assert (got.phrasings_per_1000_words, got.long_per_100_sentences) == (0, 0)
