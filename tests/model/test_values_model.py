"""Values are checked once, at birth."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from edgecron.base.checks import check_name
from edgecron.base.errors import InvalidInput, InvalidName
from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from edgecron.model.options import Policies
from tests.support.specs import make_spec


@pytest.mark.parametrize("name", ["a", "backup", "Backup.daily_2-x", "0a", "a" * 128, "7z"])
def test_a_name_is_letters_digits_and_three_signs(name: str) -> None:
    check_name(name, what="schedule name")


@pytest.mark.failure(57)
@pytest.mark.failure(60)
@pytest.mark.parametrize(
    "name",
    ["", "a" * 129, "x" * 1_000_000, "41", "-a", ".a", "_a", "../etc", "a/b", "a b", "a\n", "a\0b",
     "ü", "\u202eabc", "٣a", "$(touch x)", "a;b", "a'b", "[red]"],
)  # fmt: skip
def test_any_other_name_is_refused_in_a_short_printable_message(name: str) -> None:
    with pytest.raises(InvalidName) as caught:
        make_spec(name)

    assert caught.value.message.isprintable()
    assert caught.value.message.isascii()
    assert len(caught.value.message) < 800


@pytest.mark.parametrize(
    "policies",
    [
        {"max_late_s": -1},
        {"max_late_s": math.inf},
        {"max_late_s": math.nan},
        {"max_late_s": 1e300},
        {"max_running": 0},
        {"timeout_s": 0},
        {"timeout_s": math.inf},
        {"kill_grace_s": -0.5},
        {"retries": -1},
        {"retries": 10**9},
        {"retry_factor": 0.5},
        {"retry_factor": math.inf},
        {"retry_delay_s": -1},
        {"jitter_s": -1},
        {"jitter_s": 1e18},
        {"priority": 2**63},
        {"ok_codes": ()},
        {"ok_codes": (256,)},
        {"ok_codes": (-1,)},
    ],
)
def test_a_policy_out_of_its_range_is_refused(policies: dict[str, Any]) -> None:
    [name] = policies

    with pytest.raises(InvalidInput, match=name.removesuffix("_s").replace("_", "-")):
        Policies(**policies)


@pytest.mark.parametrize(
    "job",
    [
        {"argv": ()},
        {"argv": (" ",)},
        {"argv": ("true", "a\0b")},
        {"argv": ("true", "\udcff")},
        {"argv": ("true",), "payload": "a\0b"},
        {"argv": ("true",), "stdin": "\udcff"},
        {"argv": ("true",), "cwd": "a\0b"},
        {"argv": ("true",), "user": "a\0b"},
        {"argv": ("true",), "env_file": "a\0b"},
        {"argv": ("true",), "env": {"A": "a\0b"}},
        {"argv": ("true",), "env": {"": "x"}},
        {"argv": ("true",), "env": {"A=B": "x"}},
        {"argv": ("true", "more"), "kind": JobKind.SHELL},
    ],
)
def test_a_job_that_can_not_be_run_or_kept_is_refused(job: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Job(**({"kind": JobKind.COMMAND} | job))


@pytest.mark.failure(60)
def test_what_a_shell_would_interpret_is_kept_as_it_is() -> None:
    hostile = ("echo", "$(touch x)", "`id`", "; rm -rf /", "'\"", "%Y", "\n")

    assert Job(kind=JobKind.COMMAND, argv=hostile).argv == hostile


@pytest.mark.parametrize(
    "changes",
    [
        {"scopes": ()},
        {"scopes": (("device", "a"), ("device", "a"))},
        {"scopes": (("de vice", "a"),)},
        {"scopes": (("device", "a\n"),)},
        {"scopes": (("device", "a" * 129),)},
        {"group": "../x"},
        {"queue": ""},
        {"queue": "a\nb"},
        {"description": ""},
        {"description": "\x1b[31m"},
        {"description": "x" * 5000},
        {"max_runs": 0},
        {"max_runs": 2**63},
        {"from_at": datetime(2026, 1, 1)},  # noqa: DTZ001
        {"until_at": datetime(2026, 1, 1)},  # noqa: DTZ001
        {
            "from_at": datetime(2026, 1, 2, tzinfo=UTC),
            "until_at": datetime(2026, 1, 2, tzinfo=UTC),
        },
    ],
)
def test_a_specification_that_makes_no_sense_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        replace(make_spec(), **changes)


def test_a_value_does_not_change() -> None:
    spec = make_spec()

    with pytest.raises(FrozenInstanceError):
        spec.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize("name", ["payload", "stdin"])
def test_a_text_that_is_too_long_for_a_job_is_refused(name: str) -> None:
    longest: dict[str, Any] = {name: "x" * 1024 * 1024}
    Job(kind=JobKind.COMMAND, argv=("true",), **longest)

    with pytest.raises(InvalidInput, match="1048577 characters"):
        Job(kind=JobKind.COMMAND, argv=("true",), **{name: longest[name] + "x"})
