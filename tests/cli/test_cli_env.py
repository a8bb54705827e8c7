"""env, --env-from-shell and run --as-scheduled: what a job gets, and what only the shell has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgecron.client import Client
from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from edgecron.model.schedule import ScheduleSpec
from tests.support.cli import Edgecron
from tests.support.processes import Daemon


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in a folder of its own, which is not on PATH."""
    program = tmp_path / "own bin" / "mytool"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho it worked\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return program


@pytest.fixture
def daemon(database: Path, edgecron: Edgecron, tool: Path) -> Iterator[Daemon]:
    """An engine that was started without the folder of the program."""
    edgecron("add", "plain", "--every", "1h", "--", "true")
    running = Daemon(database)
    running.wait_for("engine_started")
    yield running
    running.close()


@pytest.fixture
def shell_path(tool: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The PATH of the user's shell, which has the folder of the program."""
    path = f"{tool.parent}:/usr/bin:/bin"
    monkeypatch.setenv("PATH", path)
    return path


def test_show_lists_what_the_job_of_a_running_engine_then_gets(
    edgecron: Edgecron, daemon: Daemon, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LANG", "xx_YY")
    file = tmp_path / "job.env"
    file.write_text("TOKEN=from-file\n")
    given = ("--env", "COLOR=blue", "--env-file", str(file), "--payload", "1")
    edgecron("add", "shown", "--every", "1h", *given, "--", "env")

    shown = {one["name"]: one for one in edgecron("env", "show", "shown", "--json").json}
    revealed = edgecron("env", "show", "shown", "--json", "--reveal").json
    printed = edgecron("run", "shown", "--wait", "--as-scheduled")

    assert printed.code == 0, printed.err
    got = dict(line.split("=", 1) for line in printed.out.splitlines())
    assert {one["name"] for one in revealed} == set(got)
    for one in revealed:
        assert one["value"] in (got[one["name"]], None), one
    assert shown["COLOR"] == {"name": "COLOR", "value": "***", "source": "env"}
    assert (shown["TOKEN"]["value"], shown["TOKEN"]["source"]) == ("***", "env_file")
    assert shown["EDGECRON_PAYLOAD"]["value"] == "***"
    assert (shown["HOME"]["source"], shown["PATH"]["source"]) == ("account", "engine")
    assert shown["EDGECRON_RUN_ID"] == {"name": "EDGECRON_RUN_ID", "value": None, "source": "run"}
    assert got.get("LANG") != "xx_YY"  # It is that of this shell only.


def test_show_gives_no_scope_before_a_machine_joins(edgecron: Edgecron) -> None:
    edgecron("add", "storage", "--every", "1h", "--on", "each", "--", "true")

    shown = {one["name"]: one["value"] for one in edgecron("env", "show", "storage", "--json").json}

    assert (shown["EDGECRON_SCOPE_KIND"], shown["EDGECRON_SCOPE_ID"]) == (None, None)


def test_show_says_that_the_shell_stands_for_an_engine_that_is_not_there(
    edgecron: Edgecron, backup: str
) -> None:
    said = edgecron("env", "show", backup)

    assert said.code == 0
    assert said.out.splitlines()[0].split() == ["NAME", "SOURCE", "VALUE"]
    assert "no engine is running, so this shell's variables replace those of an engine" in said.err


def test_a_file_of_variables_that_is_missing_is_a_warning(edgecron: Edgecron) -> None:
    edgecron("add", "x", "--every", "1h", "--env-file", "/no/such", "--", "true")

    assert "environment file '/no/such' is missing" in edgecron("env", "show", "x").err


def test_diff_compares_with_the_shell_and_path_entry_by_entry(
    edgecron: Edgecron, daemon: Daemon, shell_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONLY_HERE", "yes")
    monkeypatch.setenv("MY_TOKEN", "s3cret")
    monkeypatch.setenv("DATABASE_URL", "postgres://me:s3cret@db/shop?x=1")
    monkeypatch.setenv("HOMEPAGE", "https://me@example.org:80/a:b@c")
    edgecron("edit", "plain", "--env", "COLOR=blue", "--env", "LANG=job", "--env", "SAME=1")
    monkeypatch.setenv("LANG", "shell")
    monkeypatch.setenv("SAME", "1")

    said = edgecron("env", "diff", "plain", "--json")
    rows = {(one["name"], one["difference"]): (one["job"], one["shell"]) for one in said.json}

    assert rows["ONLY_HERE", "only_shell"] == (None, "yes")
    assert rows["COLOR", "only_job"] == ("***", None)
    assert rows["LANG", "different"] == ("***", "***")
    assert rows["PATH", "only_shell"] == (None, shell_path.partition(":")[0])
    assert ("PATH", "only_job") not in rows
    assert not any(name == "SAME" or name.startswith("EDGECRON_RUN") for name, _ in rows)
    assert rows["MY_TOKEN", "only_shell"] == rows["DATABASE_URL", "only_shell"] == (None, "***")
    assert rows["HOMEPAGE", "only_shell"] == (None, "https://me@example.org:80/a:b@c")
    assert "s3cret" not in said.out
    assert "s3cret" in edgecron("env", "diff", "plain", "--reveal").out


def test_env_refuses_a_function_an_unknown_action_and_a_server(
    edgecron: Edgecron, backup: str, database: Path
) -> None:
    job = Job(kind=JobKind.CALLABLE, argv=("report",))
    spec = ScheduleSpec(name="report", triggers=("@daily",), job=job, queue="py:app")
    Client(database).add(spec)

    function = edgecron("env", "show", "report")
    server = edgecron("--url", "http://127.0.0.1:1", "env", "show", backup)

    assert edgecron("env", "list", backup).code == 2
    assert edgecron("env", "show", "nobody").code == 3
    assert "report is a function, which has the environment of its program" in function.err
    assert "env only works on the machine of the database" in server.err
    assert (function.code, server.code) == (1, 1)


def test_variables_of_the_shell_are_copied_and_shown_as_those_of_env(
    edgecron: Edgecron, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRST", "one")
    monkeypatch.setenv("OTHER", "two")
    added = edgecron(
        *("add", "x", "--every", "1h", "--env-from-shell", "FIRST", "OTHER"),
        *("--env", "OTHER=given", "--", "true"),
    )

    assert added.code == 0
    assert edgecron("show", "x", "--json").json[0]["env"] == {"FIRST": "***", "OTHER": "***"}
    [revealed] = edgecron("show", "x", "--json", "--reveal").json
    assert revealed["env"] == {"FIRST": "one", "OTHER": "given"}


def test_a_variable_that_is_not_set_in_the_shell_is_refused(
    edgecron: Edgecron, backup: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UNSET_1", raising=False)
    monkeypatch.delenv("UNSET_2", raising=False)

    said = edgecron("edit", backup, "--env-from-shell", "UNSET_1", "PATH", "UNSET_2")

    assert said.code == 2
    assert said.err.splitlines() == [
        "error: --env-from-shell names UNSET_1 and UNSET_2, which are not set in this shell",
        "hint: export UNSET_1 UNSET_2 first, or give the value: --env UNSET_1=VALUE",
    ]


def test_a_run_as_scheduled_is_not_run_by_this_command(edgecron: Edgecron, backup: str) -> None:
    refused = edgecron("run", backup, "--wait", "--as-scheduled")
    queued = edgecron("run", backup, "--as-scheduled")

    assert refused.code == 125
    assert "no engine is running, and --as-scheduled needs the environment of" in refused.err
    assert queued.code == 0
    assert [run["status"] for run in edgecron("history", "--json").json] == ["queued"]


@pytest.mark.usefixtures("daemon", "shell_path")
@pytest.mark.parametrize("job", [("--", "mytool"), ("--shell", "mytool x; exit $?")])
def test_a_program_that_only_the_shell_finds_comes_with_the_command_that_fixes_it(
    edgecron: Edgecron, tool: Path, job: tuple[str, ...]
) -> None:
    added = edgecron("add", "uses", "--every", "1h", *job)
    failed = edgecron("run", "uses", "--wait")
    why = edgecron("why", "uses")
    [answer] = edgecron("why", "uses", "--json").json
    history = edgecron("history", "uses")
    doctor = edgecron("doctor")

    words = f"'mytool' is {tool} on your PATH, but it is not on the job's PATH"
    fix = f"edgecron edit uses --env PATH='/usr/bin:/bin:{tool.parent}'"
    assert f"warning: {words}; fix it: {fix}\n" in added.err
    assert failed.code in (125, 127)
    assert f"Fix it: {fix}\n" in why.out
    assert f"{words}. Fix it: {fix}" in answer["answer"]
    assert f"{words}; fix it: {fix}\n" in history.err
    assert fix in doctor.out

    edgecron("edit", "uses", "--env", f"PATH=/usr/bin:/bin:{tool.parent}")
    mended = edgecron("run", "uses", "--wait")

    assert (mended.code, mended.out) == (0, "it worked\n")
    assert "on your PATH" not in edgecron("history", "uses").err
