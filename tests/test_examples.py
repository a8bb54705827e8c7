"""The examples of the README are programs that run, and print what they say they print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SAID = re.compile(r"print\(.*\)\s+# (.*?)(?:: .*)?$")


def section(heading: str) -> str:
    """What the README says below a heading, up to the next of any level."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {heading}\n(.*?)(?=^##+ |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"README.md has no section {heading!r}"
    return found[1]


def test_the_readme_examples_of_python_run_and_print_what_they_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = _BLOCK.findall(section("In a Python program"))
    program = "\n".join(blocks)
    said = [found[1] for line in program.splitlines() if (found := _SAID.search(line))]
    monkeypatch.chdir(tmp_path)

    exec(compile(program, "README.md", "exec", dont_inherit=True), {"__name__": "example"})

    assert len(blocks) >= 4
    assert capsys.readouterr().out.splitlines() == said
