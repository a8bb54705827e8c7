"""A checker run on a copy of the package, and what it found."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

from tests.support.forms import HUNT

from .copies import a_copy
from .mutation import Hunt, Mutation

_MOST_S = 1800.0
_WARDEN = Path(__file__).with_name("warden.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One test that ran; `failure` is what it said, None where it passed."""

    test: str  # as pytest is asked for it
    failure: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a run of pytest did. `code` is its exit code: 0 and 1 say that tests were run."""

    cases: tuple[Case, ...]
    code: int
    took_s: float
    output: str

    @property
    def failed(self) -> Case | None:
        return next((case for case in self.cases if case.failure is not None), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What became of a mutation.

    `by` is the test that failed, None where it survived or something else went wrong: then `why`
    says what. `said` is the part of what it said that was looked for.
    """

    mutation: Mutation
    runs: int
    took_s: float
    by: str | None = None
    said: str = ""
    why: str = ""


def hunt(mutation: Mutation) -> Found:
    """Run the checker of a mutation on a copy that has it. Raises StaleEdit."""
    with a_copy(mutation.edits) as root:
        ran = run_tests(root, mutation.hunt.tests, is_long=mutation.hunt.is_long)
    failed = ran.failed
    said = None if failed is None else _find(mutation.hunt, failed)
    by, why = None, ""
    if failed is not None and said is not None:
        by = failed.test
    elif failed is not None:
        why = f"{failed.test} failed, but says nothing of {mutation.hunt.says!r}: {failed.failure}"
    elif ran.code == 0:
        why = "it survived"
    else:
        why = f"the checker could not be run (code {ran.code}): {ran.output}"
    return Found(
        mutation=mutation, runs=len(ran.cases), took_s=ran.took_s, by=by, said=said or "", why=why
    )


def hunt_all(wanted: Sequence[Mutation], *, jobs: int = 1) -> list[Found]:
    """Hunt each, then let the tests that failed pass on a copy that nothing was taken from."""

    def hunt_one(mutation: Mutation) -> Found:
        found = hunt(mutation)
        words = f"found by {found.by}: {found.said}" if found.by else found.why
        print(f"{mutation.name}: {words}", file=sys.stderr, flush=True)
        return found

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        found = list(pool.map(hunt_one, wanted))
    broken = find_broken([one.by for one in found if one.by is not None])
    return [
        replace(one, by=None, why=f"{one.by} fails without it too: {broken[one.by]}")
        if one.by in broken
        else one
        for one in found
    ]


def find_broken(tests: Sequence[str]) -> dict[str, str]:
    """Those of the tests that do not pass on a copy from which nothing was taken, and why."""
    if not tests:
        return {}
    with a_copy() as root:
        ran = run_tests(root, sorted(set(tests)), is_long=True, stops=False)
    passed = {case.test for case in ran.cases if case.failure is None}
    said = {case.test: case.failure for case in ran.cases}
    return {test: said.get(test) or ran.output for test in tests if test not in passed}


def run_tests(root: Path, tests: Sequence[str], *, is_long: bool, stops: bool = True) -> Ran:
    """Run tests of a copy on its package; with `stops`, up to the first that fails."""
    report = root / "report.xml"
    command = [
        *(sys.executable, os.fspath(_WARDEN), str(_MOST_S)),
        *(sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=short"),
        *("-p", "no:cacheprovider", "--basetemp", os.fspath(root / "tmp")),
        *(f"--junit-xml={report}", *(["-x"] if stops else []), *(["-m", ""] if is_long else [])),
        *tests,
    ]
    began = time.monotonic()
    done = subprocess.run(
        command,
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.fspath(root), HUNT: "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    took_s = time.monotonic() - began
    cases = tuple(_read(report)) if report.exists() else ()
    output = f"{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return Ran(cases=cases, code=done.returncode, took_s=took_s, output=output)


def _read(report: Path) -> list[Case]:
    cases = []
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        file = case.attrib["classname"].replace(".", "/") + ".py"
        said = [case.find("failure"), case.find("error")]
        failure = "\n".join(
            f"{one.attrib.get('message', '')}\n{one.text or ''}" for one in said if one is not None
        )
        cases.append(Case(test=f"{file}::{case.attrib['name']}", failure=failure or None))
    return cases


def _find(wanted: Hunt, case: Case) -> str | None:
    found = re.search(wanted.says, f"{case.test}\n{case.failure}")
    return None if found is None else found[0]
