"""From a schedule's words to its times: what is compiled is what is loaded."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice

import pytest

from edgecron.base.errors import InvalidInput, InvalidTrigger, UnknownTimezone
from edgecron.base.units import to_ms
from edgecron.model.choices import CatchUp
from edgecron.planning.next_fire import next_fires
from edgecron.planning.times import compile_spec, load_timing, load_triggers
from tests.support.specs import SEED, make_spec

NOW = datetime(2026, 11, 20, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    "triggers",
    [
        ("0 8 * * *",),
        ("H H * * *", "@hourly"),
        ("every 7m", "at 2027-01-01T00:00:00Z"),
        ("every 15m from 2026-11-20T08:00:00Z",),
        ("on boot", "0 0 L * *"),
    ],
)
def test_loaded_times_are_those_that_were_compiled(triggers: tuple[str, ...]) -> None:
    spec = make_spec("backup", *triggers, timezone="Europe/Berlin", jitter_s=30)
    compiled = compile_spec(spec, seed=SEED, made_at=NOW)

    loaded = load_timing(compiled.spec, compiled.compiled, seed=SEED)

    now_ms = to_ms(NOW)
    assert list(islice(next_fires(loaded, now_ms), 20)) == list(
        islice(next_fires(compiled.timing, now_ms), 20)
    )
    assert tuple(trigger.text for trigger in load_triggers(compiled.compiled)) == (
        compiled.spec.triggers
    )
    assert compiled.on_boot == ("on boot" in triggers)


def test_policies_become_milliseconds() -> None:
    spec = replace(
        make_spec(
            "backup",
            catch_up=CatchUp.ALL,
            max_late_s=1.5,
            jitter_s=0.25,
        ),
        from_at=NOW,
        until_at=NOW.replace(hour=9),
        max_runs=3,
    )

    timing = compile_spec(spec, seed=SEED, made_at=NOW).timing

    assert (timing.catch_up, timing.max_late_ms, timing.jitter_ms) == (CatchUp.ALL, 1500, 250)
    assert (timing.from_ms, timing.until_ms, timing.max_runs) == (
        to_ms(NOW),
        to_ms(NOW) + 3600_000,
        3,
    )


def test_a_bare_every_is_anchored_when_the_schedule_is_made() -> None:
    made_at = NOW.replace(minute=3)

    timing = compile_spec(make_spec("backup", "every 7m"), seed=SEED, made_at=made_at).timing

    assert next(next_fires(timing, to_ms(made_at))).plan_ms == to_ms(NOW.replace(minute=10))


def test_h_depends_on_name_and_seed() -> None:
    texts = {
        compile_spec(make_spec(name, "H H * * *"), seed=seed, made_at=NOW).compiled
        for name in ("one", "two", "three")
        for seed in (SEED, SEED[::-1])
    }

    assert len(texts) == 6


def test_only_a_new_trigger_must_lie_in_the_future() -> None:
    spec = make_spec("backup", "at 2026-11-20T07:00:00Z")

    compile_spec(spec, seed=SEED, made_at=NOW)

    with pytest.raises(InvalidInput, match="in the past"):
        compile_spec(spec, seed=SEED, made_at=NOW, now=NOW)


@pytest.mark.parametrize("stored", ["", "{}", "[1]", '[{"kind": "cron"}]', "null", '["x"]'])
def test_damaged_stored_triggers_are_named(stored: str) -> None:
    with pytest.raises(InvalidTrigger):
        load_timing(make_spec(), stored, seed=SEED)


@pytest.mark.failure(9)
def test_a_stored_zone_that_is_gone_is_refused_when_read() -> None:
    spec = make_spec("backup", "0 8 * * *", timezone="Europe/Berlin")
    stored = compile_spec(spec, seed=SEED, made_at=NOW).compiled

    with pytest.raises(UnknownTimezone):
        load_timing(spec, stored.replace("Europe/Berlin", "Europe/Nowhere"), seed=SEED)


PRIMES = (7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53)


@pytest.mark.parametrize(
    ("triggers", "message"),
    [
        (
            [*(f"every {n}s" for n in PRIMES[:5]), "*/5 * * * *"],
            "has 5 intervals beside cron, expected at most 4",
        ),
        ([f"every {n}s" for n in PRIMES], "has 13 intervals, expected at most 12"),
        ([f"{n % 60} {n // 60} * * *" for n in range(65)], "has 65 triggers, expected at most 64"),
    ],
)
def test_more_triggers_than_can_be_counted_at_once_are_refused(
    triggers: list[str], message: str
) -> None:
    compile_spec(make_spec("many", *triggers[1:]), seed=SEED, made_at=NOW)

    with pytest.raises(InvalidTrigger, match=message):
        compile_spec(make_spec("many", *triggers), seed=SEED, made_at=NOW)
