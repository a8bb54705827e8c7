"""The scripts, templates and workflows of a release are well formed, whoever never ran them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.releasing import PACKAGING, ROOT, tracked

_SHELL = re.compile(rb"#!\s*(?:/usr/bin/env (?:bash|sh)|/bin/(?:bash|sh))\b")
SCRIPTS = sorted(
    name
    for folder in ("packaging", ".ci")
    for name in tracked(folder)
    if _SHELL.match((ROOT / name).read_bytes()[:40])
)
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_the_scripts_that_are_here_are_found() -> None:
    assert {"packaging/release", "packaging/lock", ".ci/run"} <= set(SCRIPTS)


@pytest.mark.needs("shellcheck")
@pytest.mark.parametrize("script", [*SCRIPTS, "packaging/recipes/PKGBUILD"])
def test_a_shell_script_is_sound(script: str) -> None:
    judged = subprocess.run(
        ["shellcheck", "--external-sources", ROOT / script], capture_output=True, text=True
    )

    assert judged.stdout + judged.stderr == ""


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_shell_script_stops_at_its_first_error(script: str) -> None:
    text = (ROOT / script).read_text(encoding="utf-8")

    assert re.search(r"^set -e(uo pipefail|u)?$", text, re.MULTILINE)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_says_which_version_of_an_action_it_means(workflow: Path) -> None:
    used = re.findall(r"uses: *(.+)", workflow.read_text(encoding="utf-8"))

    pinned = re.compile(r"[\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+")
    assert used
    assert [action for action in used if not pinned.fullmatch(action)] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_scripts_that_are_there(workflow: Path) -> None:
    text = workflow.read_text(encoding="utf-8")

    named = set(re.findall(r"(?:packaging|\.ci)/[\w./-]+", text))

    assert named
    assert {name for name in named if not (ROOT / name).exists()} == set()


@pytest.mark.needs("yamllint")
def test_the_workflows_are_well_formed() -> None:
    github = ROOT / ".github"

    judged = subprocess.run(
        ["yamllint", "--strict", "--config-file", github / "yamllint.yml", github],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (judged.returncode, judged.stdout + judged.stderr) == (0, "")


# No system that edgecron's tests run on has a package of it.
@pytest.mark.skipif(shutil.which("actionlint") is None, reason="actionlint is not installed")
def test_the_workflows_mean_something_to_their_runner() -> None:
    judged = subprocess.run(["actionlint", *WORKFLOWS], capture_output=True, text=True, check=False)

    assert (judged.returncode, judged.stdout + judged.stderr) == (0, "")


def test_each_python_that_the_package_names_is_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))

    matrix = re.search(r"python: \[(.*)\]", (WORKFLOWS[0].parent / "ci.yml").read_text())

    assert matrix is not None
    assert re.findall(r"3\.\d+", matrix[1]) == named
    assert project["requires-python"] == f">={named[0]}"


def test_a_job_that_publishes_may_do_only_that() -> None:
    text = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")

    _, _, text_of_jobs = text.partition("\njobs:\n")
    jobs = dict(re.findall(r"^  (\w+):\n((?:    .*\n|\n)+)", text_of_jobs, re.MULTILINE))
    granted = {name: set(re.findall(r"([a-z-]+): write$", job, re.M)) for name, job in jobs.items()}

    assert granted == {
        "build": set(),
        "gather": set(),
        "index": {"id-token"},
        "image": {"attestations", "id-token", "packages"},
        "page": {"contents"},
    }
    assert "secrets." not in text


@pytest.mark.parametrize("tool", ["version", "sbom"])
def test_a_tool_of_the_release_explains_itself(tool: str) -> None:
    shown = subprocess.run(
        [sys.executable, PACKAGING / f"{tool}.py", "--help"], capture_output=True, text=True
    )

    assert (shown.returncode, shown.stderr) == (0, "")
    assert "usage: " in shown.stdout


def test_of_several_binaries_none_is_tried_in_the_place_of_another(tmp_path: Path) -> None:
    binaries = [tmp_path / f"edgecron-1.0-linux-glibc2.{minor}-x86_64" for minor in (30, 36)]
    for binary in binaries:
        binary.touch()

    ended = subprocess.run(
        [ROOT / "packaging/binary/try", "--short", *binaries],
        env={**os.environ, "PYTHON": "/bin/echo"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ended.returncode, ended.stdout) == (2, "")
    assert "there are 2 of them, expected one" in ended.stderr
