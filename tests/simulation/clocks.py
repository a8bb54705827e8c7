"""Strange times: clocks that are set by hours and days, can't be trusted, or begin in 1970."""

from __future__ import annotations

from tests.simulation.casts import START_MS
from tests.simulation.lives import Life
from tests.simulation.points import Chances

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
STEPS_MS = (
    *(4 * HOUR_MS, -4 * HOUR_MS, 10 * HOUR_MS, -10 * HOUR_MS),
    *(2 * DAY_MS, -2 * DAY_MS, 20_000, -15_000, 2 * HOUR_MS, -2 * HOUR_MS),
)
_NOWHERE_MS = (0, 86_400_000, 4_070_908_800_000)  # 1970, a day later, and 2099
_EARLIEST_MS, _LATEST_MS = START_MS - 400 * DAY_MS, START_MS + 3650 * DAY_MS


def strange_times(life: Life, *, for_ms: int) -> None:
    """Things go wrong as ever, and the clock does what clocks without a battery do."""
    random, machine = life.random, life.machine
    machine.chances = Chances(
        kill=random.choice((0.0, 0.0002, 0.001)),
        pause=random.choice((0.0, 0.002)),
        fault=random.choice((0.0, 0.0005, 0.003)),
        clock=random.choice((0.0, 0.00005)),
        steps_ms=STEPS_MS,
    )
    machine.clock.synchronised = random.choice((True, None, False))
    life.may_change_times = False  # by which clock, nobody could tell
    until_ms = machine.true_ms + for_ms
    while machine.true_ms < until_ms:
        life.run(random.choice((5_000, 30_000, 120_000, 400_000)))
        dice = random.random()
        if dice < 0.15:
            machine.step_clock(random.choice(STEPS_MS))
        elif dice < 0.25:
            _boot_nowhere(life)
        elif dice < 0.40:
            _correct(life)
            machine.clock.synchronised = random.choice((True, None, False))
        elif dice < 0.45:
            machine.suspend(random.choice((HOUR_MS, 5 * HOUR_MS)))
        else:
            life.maltreat(is_about_clock=False)


def come_to_senses(life: Life) -> None:
    """The clock is right from now on, and known to be; then everything is judged."""
    machine = life.machine
    machine.be_calm()
    machine.clock.synchronised = True
    _correct(life)
    life.engines_wanted = max(1, life.engines_wanted)
    life.start_now()
    life.run(60_000)
    life.judge.check_recovered()
    _check_held(life)
    life.remove_all()
    life.come_to_rest()
    life.judge.check_covered()


def _boot_nowhere(life: Life) -> None:
    """A machine without a battery comes up in 1970, or far ahead, with nothing to ask."""
    machine = life.machine
    machine.reboot(down_ms=life.random.choice((5_000, 90_000)))
    machine.clock.synchronised = life.random.choice((None, False))
    machine.step_clock(life.random.choice(_NOWHERE_MS) - machine.clock.now_ms())


def _correct(life: Life) -> None:
    """Set the clock to what it is, as a time server does."""
    machine = life.machine
    by_ms = START_MS + machine.true_ms - machine.clock.now_ms()
    if by_ms:
        machine.step_clock(by_ms)


def _check_held(life: Life) -> None:
    """By a clock that nobody can believe nothing of a calendar was decided."""
    for row in life.judge.rows.values():
        is_calendar = not life.specs[row["name"]].triggers[0].startswith("every")
        if row["fire_key"] in ("", "missed") and is_calendar:
            assert _EARLIEST_MS < row["plan_at"] < _LATEST_MS, f"held: {row}"
            last_ms = row["missed_to_at"] or row["plan_at"]
            assert last_ms < _LATEST_MS, f"held: {row}"
