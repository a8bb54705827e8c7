"""The measurements can be run: nothing is said of their figures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def bench(*options: str) -> str:
    shown = subprocess.run(
        [sys.executable, "-m", "tests.bench", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


def test_the_rows_are_listed_by_name() -> None:
    names = [line.split()[0] for line in bench("--list").splitlines()]

    assert {"next", "claims", "step", "commands"} <= set(names)
    assert len(names) == len(set(names))


def test_peers_have_rows_of_their_own() -> None:
    names = {line.split()[0] for line in bench("--peers", "--list").splitlines()}

    assert names == {"embedded", "enqueue", "front-door", "idling"}


def test_a_row_is_measured_printed_and_written_as_json(tmp_path: Path) -> None:
    file = tmp_path / "table.json"

    shown = bench("step", "--quick", "--folder", str(tmp_path), "--json", str(file), "--markdown")

    found = json.loads(file.read_text(encoding="utf-8"))
    [row] = found["rows"]
    assert row["bench"] == "step"
    assert row["value"] > 0
    assert row["reach"] == "<= 10 ms"
    assert found["machine"]["sqlite"]
    assert f"| {row['what']} |" in shown
