"""Topics of help: all that they show is done, and does what they say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgecron.cli.topics import TOPICS, read_topic
from support.examples import Example, code_of, python_of


@pytest.fixture
def example(tmp_path: Path) -> Iterator[Example]:
    example = Example(tmp_path)
    yield example
    example.close()


@pytest.mark.parametrize("name", TOPICS)
def test_what_a_topic_shows_is_what_is_done(name: str, example: Example) -> None:
    blocks = code_of(read_topic(name))

    for block in blocks:
        example.do(block)

    assert blocks
    if example.wrong:
        pytest.fail("\n".join(example.wrong), pytrace=False)


@pytest.mark.parametrize("name", TOPICS)
def test_the_python_of_a_topic_runs_and_prints_what_it_says(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program, said = python_of(code_of(read_topic(name)))
    monkeypatch.chdir(tmp_path)

    exec(compile(program, f"{name}.md", "exec", dont_inherit=True), {"__name__": "example"})

    assert capsys.readouterr().out.splitlines() == said
