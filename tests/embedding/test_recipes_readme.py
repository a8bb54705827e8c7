"""The recipes that the README shows are the programs that are tested."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_PART = re.compile(r"^# README: (\S+)\n(.*?)^# README: end$", re.MULTILINE | re.DOTALL)
PARTS = {
    name: code.strip()
    for path in sorted((ROOT / "tests" / "recipes").rglob("*.py"))
    for name, code in _PART.findall(path.read_text("utf-8"))
}
NOT_SHOWN = {"worker.py"}  # two lines, told in words


def test_each_recipe_is_found() -> None:
    assert {"jobs.py", "fastapi_app.py", "flask_app.py", "orders/jobs.py"} <= set(PARTS)


@pytest.mark.parametrize("name", sorted(set(PARTS) - NOT_SHOWN))
def test_the_readme_shows_the_program_that_is_tested(name: str) -> None:
    readme = (ROOT / "README.md").read_text("utf-8")

    assert f"```python\n# {name}\n{PARTS[name]}\n```\n" in readme
