"""The wheel and the source archive hold what they should, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import edgecron
from edgecron.cli.help_ import TOPICS
from edgecron.store.sqlite.migrate import SCRIPTS
from tests.support.releasing import ROOT, build, tracked

NAME = f"edgecron-{edgecron.__version__}"
# Beside modules and migrations, these; whatever else gets in is to be thought about.
DATA = {
    "edgecron/py.typed",
    "edgecron/store/postgres/functions.sql",
    "edgecron/store/postgres/migrations/0001_foundation.sql",
    "edgecron/store/postgres/migrations/0002_leases.sql",
    "edgecron/store/postgres/migrations/0003_search_path.sql",
    "edgecron/store/postgres/migrations/0004_placement.sql",
    "edgecron/store/postgres/migrations/0005_foreign_writes.sql",
    "edgecron/store/postgres/migrations/0006_drained_engines.sql",
    "edgecron/store/postgres/migrations/0007_polling.sql",
    "edgecron/store/postgres/migrations/0008_queue_order.sql",
    "edgecron/store/postgres/migrations/0009_new_runs.sql",
    "edgecron/store/sqlite/schema.sql",
    "edgecron/tui/dashboard.tcss",
}
TEXTS = {
    "assistants.txt",
    "completion.bash",
    "completion.fish",
    "completion.zsh",
    "demo.txt",
    "edgecron.1",
    "everyday.txt",
    "openrc.sh",
    "plain.txt",
    "procd.sh",
    "systemd-strict-root.conf",
    "systemd-strict.conf",
    "systemd.service",
    "tools.toml",
    "words.toml",
}
FOR_CONTRIBUTORS = {"edgecron/ARCHITECTURE.md"}
ABOUT = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
# No part of a program or of its tests, and larger than both.
LEFT_OUT = "packaging/pictures/"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", source=ROOT, into=tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("sdist", source=ROOT, into=tmp_path_factory.mktemp("sdist"))


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())

    package = {name for name in held if name.startswith("edgecron/")}
    assert held - package == {f"{NAME}.dist-info/{name}" for name in ABOUT}
    assert package == tracked("edgecron") - FOR_CONTRIBUTORS
    others = {name for name in package if not name.endswith(".py")}
    migrations = {f"edgecron/store/sqlite/migrations/{name}" for name in SCRIPTS}
    topics = {f"edgecron/cli/topics/{name}.md" for name in TOPICS}
    topics.add("edgecron/cli/topics/topics.toml")
    texts = {f"edgecron/cli/texts/{name}" for name in TEXTS}
    assert others == migrations | topics | texts | DATA


@pytest.mark.needs_package("twine")
def test_the_index_takes_wheel_and_archive(wheel: Path, archive: Path) -> None:
    judged = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", wheel, archive],
        capture_output=True,
        text=True,
        check=False,
    )

    assert judged.returncode == 0, judged.stdout
    assert judged.stdout.count("PASSED") == 2


def test_older_tools_of_the_index_can_read_the_metadata(wheel: Path, archive: Path) -> None:
    """twine 6.2 refuses metadata 2.5, which hatchling writes by default."""
    with tarfile.open(archive) as members:
        of_archive = members.extractfile(f"{NAME}/PKG-INFO")
        assert of_archive is not None
        texts = [of_archive.read(), zipfile.ZipFile(wheel).read(f"{NAME}.dist-info/METADATA")]

    assert [text.partition(b"\n")[0] for text in texts] == [b"Metadata-Version: 2.4"] * 2


def test_nothing_in_wheel_or_archive_is_set_user_id(wheel: Path, archive: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        modes = {entry.filename: entry.external_attr >> 16 for entry in opened.infolist()}
    with tarfile.open(archive) as members:
        modes |= {member.name: member.mode for member in members}

    assert [name for name, mode in modes.items() if mode & 0o7000] == []


def test_the_wheel_says_what_it_needs_and_under_which_licence(wheel: Path) -> None:
    text = zipfile.ZipFile(wheel).read(f"{NAME}.dist-info/METADATA").decode()
    said = Parser().parsestr(text)

    assert said["Version"] == edgecron.__version__
    assert said["Requires-Python"] == ">=3.11"
    assert (said["License-Expression"], said["License-File"]) == ("MIT", "LICENSE")
    assert {"http", "mcp", "metrics", "web"} <= set(said.get_all("Provides-Extra", []))
    needed = {
        need.partition(">")[0] for need in said.get_all("Requires-Dist", []) if ";" not in need
    }
    assert needed == {"apsw", "croniter", "platformdirs", "textual", "tzdata"}


def test_the_source_archive_holds_what_builds_and_tests_it(archive: Path) -> None:
    with tarfile.open(archive) as opened:
        held = {name.partition("/")[2] for name in opened.getnames()}

    whole = {"PKG-INFO", "README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", ".gitignore"}
    wanted = tracked("edgecron") | tracked("tests") | tracked("packaging")
    assert held == whole | {name for name in wanted if not name.startswith(LEFT_OUT)}


def test_the_source_archive_builds_the_same_wheel_to_the_byte(
    archive: Path, wheel: Path, tmp_path: Path
) -> None:
    # Not by tarfile: how it is told to be careful differs between versions of Python.
    subprocess.run(["tar", "-xzf", archive, "-C", tmp_path], check=True)

    again = build("wheel", source=tmp_path / NAME, into=tmp_path / "out", umask=0o077)

    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()


def test_the_source_archive_is_the_same_to_the_byte(archive: Path, tmp_path: Path) -> None:
    again = build("sdist", source=ROOT, into=tmp_path / "out", umask=0o077)

    assert again.read_bytes() == archive.read_bytes()


def test_what_the_wheel_holds_runs_a_schedule(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    start = "import sys; sys.path.insert(0, sys.argv.pop(1)); from edgecron.__main__ import main; "
    program = [sys.executable, "-P", "-c", f"{start}main()", str(tmp_path / "site")]
    database = ["--db", str(tmp_path / "e.db")]

    shown = subprocess.run(
        [*program, *database, "add", "hello", "--every", "1h", "--", "true"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    assert "added hello" in shown.stderr + shown.stdout


def test_pytest_finds_the_fixtures_of_what_the_wheel_holds(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_app.py").write_text("def test_it(travel):\n    travel.advance(hours=1)\n")
    start = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]

    found = subprocess.run(
        start, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    refused = subprocess.run(
        [*start, "-p", "no:edgecron.testing"], cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert found.returncode == 0, found.stdout
    assert "fixture 'travel' not found" in refused.stdout
