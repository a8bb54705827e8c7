"""The built single binary, which TESTS_BINARY names: `packaging/binary/try` runs these."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.processes import BOUND_S, Daemon
from tests.support.program import PACKAGE, PROGRAM

pytestmark = pytest.mark.built

MOST_BYTES = 14_000_000
# What a start may take of one without the launcher, and a few system calls; in milliseconds it is
# another on each machine.
MOST_RATIO = 1.3
# Other runs, other places: all else is the same however edgecron was installed.
OWN = {
    "EDGECRON_FENCE",
    "EDGECRON_RUN_ID",
    "EDGECRON_PLAN_AT",
    "EDGECRON_IDEMPOTENCY_KEY",
    "EDGECRON_RESULT",
}


def run(*words: str | Path, program: tuple[str, ...] = PROGRAM, **variables: str) -> str:
    said = subprocess.run(
        [*program, *words],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=True,
    )
    return said.stdout


def own_folder() -> Path:
    """Where the program that is tested is unpacked; other versions may lie beside it."""
    [path] = [each["path"] for each in json.loads(run("self", "--json")) if each.get("is_current")]
    return Path(path)


def variables_of_a_job(database: Path, program: tuple[str, ...]) -> dict[str, str]:
    own = {"LD_LIBRARY_PATH": "/of/the/user", "PYTHONHOME": "", "TCL_LIBRARY": "/x"}
    run("--db", database, "add", "job", "--every", "1h", "--", "env", "-0", program=program)
    text = run("--db", database, "run", "job", "--wait", program=program, **own)
    pairs = (line.split("=", 1) for line in text.split("\0") if "=" in line)
    return {name: value for name, value in pairs if name not in OWN}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "edgecron.db"


def test_it_is_no_larger_than_it_may_be() -> None:
    assert Path(PROGRAM[0]).stat().st_size <= MOST_BYTES


def test_a_warm_start_is_nearly_as_fast_as_one_without_the_launcher(tmp_path: Path) -> None:
    inner = own_folder() / "edgecron"
    bare = {**os.environ, "_PYI_ARCHIVE_FILE": str(inner), "_PYI_PARENT_PROCESS_LEVEL": "-1"}
    # It leaves at once where no launcher has started it; the library of Python is loaded by then.
    bare["_EDGECRON_BUNDLE"] = "0:0:"

    def took_s(words: list[str], environment: dict[str, str]) -> float:
        began = time.perf_counter()
        subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, check=True)
        return time.perf_counter() - began

    # In turn, so that what others do on this machine falls on both.
    pairs = [
        (
            took_s([*PROGRAM, "--version"], dict(os.environ)),
            took_s([str(inner), "--version"], bare),
        )
        for _ in range(20)
    ]
    with_launcher, without = map(min, zip(*pairs, strict=True))

    print(f"warm start {with_launcher * 1000:.1f} ms, without the launcher {without * 1000:.1f} ms")
    assert with_launcher <= without * MOST_RATIO + 0.005


@pytest.mark.failure(64)
def test_a_job_has_the_environment_that_it_has_under_an_installed_package(tmp_path: Path) -> None:
    ours = variables_of_a_job(tmp_path / "a.db", PROGRAM)
    theirs = variables_of_a_job(tmp_path / "b.db", PACKAGE)

    assert ours == theirs
    assert not any(name.startswith(("LD_", "_PYI", "_EDGECRON", "PYTHON", "TCL")) for name in ours)


def test_it_asks_for_no_glibc_newer_than_it_says(tmp_path: Path) -> None:
    floor = Path(__file__).parents[2] / "packaging" / "binary" / "glibc-floor"

    newest = subprocess.run([floor, own_folder()], capture_output=True, text=True, check=True)

    words = f"glibc {newest.stdout.strip()} or newer".encode()
    assert words.removeprefix(b"glibc ") in Path(PROGRAM[0]).read_bytes().replace(b"\0", b"")


def test_its_name_says_which_glibc_it_needs() -> None:
    name = Path(PROGRAM[0]).name
    if name == "edgecron":
        pytest.skip("a package installs it under this name, which says nothing")

    floor = re.search(r"-linux-glibc([\d.]+)-\w+$", name)

    assert floor is not None
    assert f"{floor[1]} or newer".encode() in Path(PROGRAM[0]).read_bytes().replace(b"\0", b"")


def test_the_licences_of_what_it_holds_are_in_it() -> None:
    folder = Path(json.loads(run("self", "--json"))[0]["licences"])
    held = {path.name for path in folder.iterdir()}

    assert {"apsw", "libffi", "libzstd", "openssl", "pyinstaller", "rich", "zlib"} <= held
    assert [name for name in held if name.startswith("python")]
    # Of the launcher: the C library that it was linked with.
    assert held & {"musl", "glibc"}
    assert (folder / "common-licenses" / "Apache-2.0").is_file()


def test_it_has_the_http_api_and_metrics(database: Path) -> None:
    run("--db", database, "add", "job", "--every", "1h", "--", "true")
    daemon = Daemon(database, "--http", f"unix:{database.parent}/socket")
    try:
        daemon.wait_for("engine_started")
        answered = run("--url", f"unix:{database.parent}/socket", "list", "--json")
    finally:
        code = daemon.stop()

    assert [each["name"] for each in json.loads(answered)] == ["job"]
    assert code == 0
    assert "scheduler_build_info" in run("--db", database, "metrics")


def test_it_knows_its_zones_pages_and_completions() -> None:
    assert "Asia/Kolkata" in run("check", "0 3 * * *", "--tz", "Asia/Kolkata")
    assert run("help", "--man").startswith((".TH", "'\\\"", '.\\"'))
    assert "_edgecron" in run("completion", "bash")


def test_what_it_does_not_have_says_where_it_is() -> None:
    said = subprocess.run(
        [*PROGRAM, "mcp"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )

    assert said.returncode == 1
    assert "the single binary does not have it; see: edgecron help install" in said.stderr


def test_a_service_is_of_the_link_that_it_was_started_by(tmp_path: Path) -> None:
    link = tmp_path / "edgecron"
    link.symlink_to(PROGRAM[0])

    printed = run("service", "print", "--user", program=(str(link),))

    assert f"ExecStart={link} " in printed


def test_its_own_part_does_not_run_by_itself() -> None:
    said = subprocess.run([own_folder() / "edgecron"], capture_output=True, text=True, check=False)

    assert said.returncode == 1
    assert "start the file that it was unpacked from" in said.stderr
