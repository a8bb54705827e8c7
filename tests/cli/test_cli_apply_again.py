"""`apply` of a large unchanged file is quick, and misses no change."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from edgecron.client import Client
from tests.support.cli import Edgecron

COUNT = 60  # more than one transaction takes


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "many.toml"
    path.write_text(
        "".join(
            f'[schedules.job-{number}]\ncron = "{number % 60} 2 * * *"\ncommand = ["true"]\n'
            f'description = "number {number}"\n'
            for number in range(COUNT)
        )
    )
    return path


def by_sql(sql: str) -> Callable[[Edgecron, Path, Path], None]:
    def change(edgecron: Edgecron, database: Path, file: Path) -> None:
        connection = apsw.Connection(str(database))
        connection.execute(sql)
        connection.close()

    return change


def by_command(*words: str) -> Callable[[Edgecron, Path, Path], None]:
    def change(edgecron: Edgecron, database: Path, file: Path) -> None:
        said = edgecron(*words)
        assert said.code == 0, said.err

    return change


def in_file(old: str, new: str) -> Callable[[Edgecron, Path, Path], None]:
    def change(edgecron: Edgecron, database: Path, file: Path) -> None:
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new, 1))

    return change


def modules_of_apply(database: Path, file: Path) -> str:
    """What Python loads for an apply."""
    command = ["-X", "importtime", "-m", "edgecron", "--db", str(database), "apply", str(file)]
    done = subprocess.run(
        [sys.executable, *command], env=os.environ, capture_output=True, text=True, check=True
    )
    assert f"{COUNT} unchanged" in done.stderr
    return done.stderr


def test_an_unchanged_file_is_not_read_again(
    edgecron: Edgecron, database: Path, file: Path
) -> None:
    edgecron("apply", str(file))

    assert "croniter" not in modules_of_apply(database, file)


def test_an_unchanged_file_of_relative_times_is_read_again(
    edgecron: Edgecron, database: Path, file: Path
) -> None:
    file.write_text(file.read_text() + 'until = "2099-01-01"\n')
    edgecron("apply", str(file))

    assert "croniter" in modules_of_apply(database, file)


@pytest.mark.parametrize(
    "change",
    [
        by_sql("UPDATE schedules SET description = 'by hand' WHERE name = 'job-7'"),
        by_sql("UPDATE schedules SET triggers = '[\"every 1h\"]' WHERE name = 'job-7'"),
        by_sql("UPDATE schedules SET env = '{\"A\":\"1\"}' WHERE name = 'job-7'"),
        by_sql("UPDATE schedule_scopes SET scope_kind = 'device' WHERE schedule_id = 7"),
        by_command("edit", "job-7", "--timeout", "5m"),
        by_command("edit", "job-7", "--group", "night:3"),
        in_file('"number 7"', '"number 8"'),
        in_file('cron = "7 2', 'cron = "8 2'),
    ],
)
def test_what_was_changed_since_is_in_the_plan(
    edgecron: Edgecron,
    database: Path,
    file: Path,
    change: Callable[[Edgecron, Path, Path], None],
) -> None:
    edgecron("apply", str(file))
    assert f"{COUNT} unchanged" in edgecron("apply", str(file), "--dry-run").err

    change(edgecron, database, file)
    said = edgecron("apply", str(file), "--dry-run")

    assert f"1 to change, {COUNT - 1} unchanged" in said.err


def test_what_was_added_or_removed_since_is_in_the_plan(
    edgecron: Edgecron, database: Path, file: Path
) -> None:
    edgecron("apply", str(file))

    edgecron("rm", "job-7")
    assert f"1 to create, {COUNT - 1} unchanged" in edgecron("apply", str(file)).err
    edgecron("add", "mine", "--every", "1h", "--", "true")
    for _ in range(2):
        assert f"{COUNT} unchanged, 1 not in the file" in edgecron("apply", str(file)).err
    for _ in range(2):
        assert "left alone: mine" in edgecron("apply", str(file), "--prune").out


def test_what_the_file_no_longer_has_is_shown_each_time_and_can_be_pruned(
    edgecron: Edgecron, file: Path
) -> None:
    edgecron("apply", str(file))
    edgecron("apply", str(file))
    rest = file.read_text().rpartition("[schedules.")[0]
    file.write_text(rest)

    for _ in range(2):
        assert "--prune removes it" in edgecron("apply", str(file)).out
    assert f"{COUNT - 1} unchanged" in edgecron("apply", str(file), "--prune").err
    assert edgecron("apply", str(file), "--prune").err == f"{COUNT - 1} unchanged\n"


def test_a_limit_of_a_group_that_was_changed_is_set_again(
    edgecron: Edgecron, database: Path, file: Path
) -> None:
    file.write_text(file.read_text() + 'group = "night:3"\n')
    edgecron("apply", str(file))
    with Client(database) as client:
        client.limit_group("night", 4)

    assert f"1 to change, {COUNT - 1} unchanged" in edgecron("apply", str(file)).err
    with Client(database) as client:
        assert client.schedule(f"job-{COUNT - 1}").group_max_running == 3


def test_a_memory_that_can_not_be_read_is_no_error(
    edgecron: Edgecron, database: Path, file: Path
) -> None:
    edgecron("apply", str(file))
    [memory] = Path(f"{database}.state").glob("applied-*")

    for content in (b"", b"[1, 2]", b'["x", "y", null]', b"\xff"):
        memory.write_bytes(content)
        assert f"{COUNT} unchanged" in edgecron("apply", str(file)).err
