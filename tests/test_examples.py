"""What README and topics show is what is done: commands, files and programs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from getpass import getuser
from pathlib import Path

import pytest

from edgecron.cli.completion import CommandGrammar, read_grammar
from edgecron.cli.help_ import TOPICS, read_topic
from tests.bench.__main__ import BENCHES, PEERS
from tests.simulation.judging import TABLE
from tests.support.examples import Example, code_of, python_of
from tests.support.tools import need_tools

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PERFORMANCE = (ROOT / "packaging/site/performance.md").read_text(encoding="utf-8")
RELIABILITY = (ROOT / "packaging/site/reliability.md").read_text(encoding="utf-8")
SECTIONS = {
    part.partition("\n")[0].removeprefix("# "): part
    for part in re.split(r"^## ", README, flags=re.M)
}
TEXTS = {**{f"README: {name}": part for name, part in SECTIONS.items()}}
TEXTS |= {name: read_topic(name) for name in TOPICS}
_NAMED = re.compile(r"`edgecron ([^`]+)`")


@cache
def grammar_by_command() -> dict[str, CommandGrammar]:
    """Read the grammar once: the parsers of all commands take a tenth of a second."""
    return {command.name: command for command in read_grammar()}


@pytest.fixture
def example(tmp_path: Path) -> Iterator[Example]:
    example = Example(tmp_path)
    yield example
    example.close()


@pytest.mark.parametrize("name", [name for name in TEXTS if code_of(TEXTS[name])])
def test_what_a_text_shows_is_what_is_done(name: str, example: Example) -> None:
    blocks = code_of(TEXTS[name])
    need_tools(
        *(
            tool
            for tool in ("curl", "sqlite3", "uptime")
            if any(tool in line for block in blocks for line in block.lines)
        )
    )
    example.shows_warnings = name.startswith("README")
    for block in blocks:
        example.do(block)

    if example.wrong:
        pytest.fail("\n".join(example.wrong), pytrace=False)


@pytest.mark.parametrize("name", [name for name in TEXTS if python_of(code_of(TEXTS[name]))[0]])
def test_the_python_of_a_text_runs_and_prints_what_it_says(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program, said = python_of(code_of(TEXTS[name]))
    if os.geteuid() != 0:  # Only root can have a job run as another user.
        program = program.replace('user="nobody"', f'user="{getuser()}"')
    monkeypatch.chdir(tmp_path)

    exec(compile(program, f"{name}.md", "exec", dont_inherit=True), {"__name__": "example"})

    assert said
    assert capsys.readouterr().out.splitlines() == said


def test_there_are_examples_to_be_done() -> None:
    assert {"README: In Python", "embedding"} <= {
        name for name in TEXTS if python_of(code_of(TEXTS[name]))[0]
    }
    assert all(code_of(read_topic(name)) for name in TOPICS)


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 200
    assert len(README.split()) <= 1000


@pytest.mark.parametrize("page", ["README", "reliability", "performance"])
def test_a_command_that_makes_figures_can_be_run(page: str) -> None:
    text = {"README": README, "reliability": RELIABILITY, "performance": PERFORMANCE}[page]
    modules = set(re.findall(r"\btests\.(\w+)", text))
    benches = {
        word
        for words in re.findall(r"\btests\.bench([^`#\n]*)", text)
        for word in words.split()
        if not word.startswith("-")
    }

    assert modules
    assert {name for name in modules if not (ROOT / "tests" / name).is_dir()} == set()
    assert benches <= {*BENCHES, *PEERS}


def test_the_count_of_invariants_is_that_of_their_table() -> None:
    architecture = (ROOT / "edgecron/ARCHITECTURE.md").read_text(encoding="utf-8")
    count = len(re.findall(r"^\| I\d+ \|", architecture, flags=re.M))

    assert count >= max(TABLE)
    assert f"{count} rules" in README
    assert f"{count} invariants" in RELIABILITY


def test_what_a_topic_says_was_measured_stands_in_the_table_of_the_site() -> None:
    told = re.findall(r"\b\d+\.\d KB\b", read_topic("flash"))

    assert told
    assert all(f" {figure} |" in PERFORMANCE for figure in told)


@pytest.mark.parametrize("name", TEXTS)
def test_each_command_that_a_text_names_has_a_verb_and_options_that_there_are(name: str) -> None:
    grammar = grammar_by_command()
    options = {
        command: {word for option in grammar[command].options for word in option.names}
        for command in grammar
    }
    globals_ = {
        name for option in grammar["list"].options if option.is_global for name in option.names
    }

    for line in _NAMED.findall(TEXTS[name]):
        words = line.partition(" -- ")[0].split()
        command = next((word for word in words if word in (*grammar, "help")), None)
        known = {"--man", "--version", *globals_, *options.get(command or "", ())}
        named = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert command is not None or named or words[0].isupper(), line
        assert named <= known, line
        if command == "help" and words[-1].islower():
            assert words[-1] in {*TOPICS, *grammar, "help", "--man"}, line
