"""The recipes that topics show are the programs that are tested."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edgecron.cli.help_ import read_topic

ROOT = Path(__file__).parents[2]
_PART = re.compile(r"^# SHOWN: (\S+)\n(.*?)^# SHOWN: end$", re.MULTILINE | re.DOTALL)
PARTS = {
    name: code.strip()
    for path in sorted((ROOT / "tests" / "recipes").rglob("*.py"))
    for name, code in _PART.findall(path.read_text("utf-8"))
}
NOT_SHOWN = {"worker.py"}  # two lines, told in words
SHOWN = "".join(read_topic(name) for name in ("web", "django", "tracing", "testing"))


def test_each_recipe_is_found() -> None:
    assert {"jobs.py", "fastapi_app.py", "flask_app.py", "orders/jobs.py"} <= set(PARTS)


@pytest.mark.parametrize("name", sorted(set(PARTS) - NOT_SHOWN))
def test_the_program_that_is_shown_is_the_one_that_is_tested(name: str) -> None:
    assert f"```python recipe\n# {name}\n{PARTS[name]}\n```\n" in SHOWN


def test_every_recipe_that_is_shown_is_tested() -> None:
    shown = re.findall(r"^```python recipe\n# (\S+)$", SHOWN, re.MULTILINE)

    assert sorted(shown) == sorted(set(PARTS) - NOT_SHOWN)
