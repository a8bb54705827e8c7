"""A storm in a field of its own: what `__main__` starts there."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import traceback
from dataclasses import asdict
from pathlib import Path

from tests.chaos.field import Field
from tests.chaos.figures import figures, table
from tests.chaos.history import Violation
from tests.chaos.plan import make_plan
from tests.chaos.storm import Storm
from tests.chaos.verdicts import judge

_MOST_SHOWN = 12


def run(options: argparse.Namespace, folder: Path) -> int:
    """0 where nothing was violated, 1 where something was, 2 where the storm itself failed."""
    abilities = find_abilities(folder, has_disk=options.has_disk)
    field = Field(folder, abilities=abilities)
    plan = make_plan(options.seed, duration_s=options.duration, abilities=abilities)
    for name in sorted({"disk", "modes"} - abilities):
        say(f"this user can't have {name!r}: its faults are left out, and counted")
    storm = Storm(field, plan, engines=options.engines, pace=options.pace, say=say)
    try:
        history = storm.run()
    except Exception:  # noqa: BLE001 - whatever it was, what runs must be ended, and it is told
        traceback.print_exc()
        return 2
    finally:
        storm.end()
    violations = judge(history)
    found = figures(storm, history, violations)
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    (folder / "history.json").write_text(json.dumps(asdict(history), indent=1), encoding="utf-8")
    print(table(found))
    show(violations)
    # What lies on the file system of its own would vanish with us.
    shutil.copytree(field.place, folder / "place", dirs_exist_ok=True, ignore=_fifos)
    return int(bool(violations))


def _fifos(path: str, names: list[str]) -> list[str]:
    return [name for name in names if not (Path(path) / name).is_file() and "." in name]


def show(violations: list[Violation]) -> None:
    shown: dict[str, int] = {}
    for one in violations:
        shown[one.number] = shown.get(one.number, 0) + 1
        if shown[one.number] <= _MOST_SHOWN:
            print(f"VIOLATION {one.number}: {one.text}")
    for number, count in shown.items():
        if count > _MOST_SHOWN:
            print(f"VIOLATION {number}: {count - _MOST_SHOWN} more")


def find_abilities(folder: Path, *, has_disk: bool) -> frozenset[str]:
    """What can be done here: a small disk of our own, and modes that hold us back."""
    probe = folder / "probe"
    probe.touch(mode=0)
    try:
        probe.open("rb").close()
        obeys_modes = False
    except PermissionError:
        obeys_modes = True
    probe.unlink()
    return frozenset(name for name, can in (("disk", has_disk), ("modes", obeys_modes)) if can)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
