"""What does a claim cost, against a loop of the bare statements?

All schedules are due at one instant. edgecron: the engine's own step looks, decides, claims in
its chunks, and its next step writes the ends. The runs end together after the claims, since a step
stops claiming when runs end. The bare loop does the same statements in batches of the same size.
Checkpoints are neither's: they come between the rounds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from edgecron.base.units import to_ms
from edgecron.engine.fire import CHUNK, FIRST_CHUNK
from edgecron.triggers import parse_trigger
from tests.bench.bare import BareLoop
from tests.bench.enginerig import EngineRig
from tests.bench.machine import Setting
from tests.bench.schedules import checkpoint, command_spec, make, set_due
from tests.bench.table import Row, at_least, at_most
from tests.bench.timing import Pairs, seconds_of
from tests.support.clock import FakeClock

START_MS = to_ms(datetime(2026, 6, 1, 12, tzinfo=UTC))
DAY_MS = 86_400_000
SHARED = ("0 * * * *",)


def own_triggers(count: int) -> tuple[str, ...]:
    """As many cron texts that all match 12:00, and have other next times or other fields."""
    pairs = itertools.combinations(range(1, 60), 2)
    hours = itertools.cycle(range(13, 24))
    return tuple(f"0,{a},{b} 12,{next(hours)} * * *" for a, b in itertools.islice(pairs, count))


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """Seconds of one round: of its claims, and of its ends."""

    claims_s: float
    ends_s: float


class Ground:
    """Two databases with the same schedules: edgecron's engine on one, the bare loop on the other.

    Each round is a day later than the one before, at noon.
    """

    def __init__(self, folder: Path, count: int, triggers: Sequence[str]) -> None:
        self.count = count
        self.clock = FakeClock(START_MS)
        self._databases = (folder / "ours.db", folder / "bare.db")
        texts = list(itertools.islice(itertools.cycle(triggers), count))
        for database in self._databases:
            specs = [command_spec(f"s{number}", text) for number, text in enumerate(texts)]
            make(database, specs, clock=self.clock)
        self._waits_ms = [_wait_ms(text) for text in texts]
        self.rig = EngineRig(self._databases[0], self.clock)
        self.bare = BareLoop(self._databases[1], self._next_of)
        self.bare.connection.wal_autocheckpoint(0)

    def _next_of(self, schedule_id: int, plan_ms: int) -> int:
        return plan_ms + self._waits_ms[schedule_id - 1]

    def round(self, first: Callable[[], Took], second: Callable[[], Took]) -> None:
        """Have everything due at the next noon, and measure both."""
        self.clock.advance_ms(DAY_MS - 1000)
        for database in self._databases:
            set_due(database, self.clock.now_ms() + 1000)
            checkpoint(database)
        self.rig.engine.step()
        self.rig.engine.prepare()
        self.bare.look(self.clock.now_ms(), 1)
        self.clock.advance_ms(1000)
        first()
        second()

    def ours(self) -> Took:
        step = self.rig.engine.step
        self.rig.holds_ends = True
        claims_s = seconds_of(lambda: _expect(step().claimed, self.count))
        self.rig.holds_ends = False
        return Took(claims_s=claims_s, ends_s=seconds_of(lambda: _expect(step().ended, self.count)))

    def theirs(self) -> Took:
        now_ms = self.clock.now_ms()
        claimed = []

        def claim() -> None:
            limit = FIRST_CHUNK
            while found := self.bare.claim(now_ms, limit):
                claimed.extend(found)
                limit = CHUNK

        def end() -> None:
            for first in range(0, len(claimed), CHUNK):
                self.bare.end(claimed[first : first + CHUNK], now_ms)

        claims_s = seconds_of(claim)
        _expect(len(claimed), self.count)
        return Took(claims_s=claims_s, ends_s=seconds_of(end))

    def measure(self, rounds: int) -> list[tuple[Took, Took]]:
        """Ours and theirs of each round; one more goes before, in which triggers are compiled."""
        found: list[tuple[Took, Took]] = []
        for number in range(rounds + 1):
            took: dict[str, Took] = {}

            def mine(took: dict[str, Took] = took) -> Took:
                return took.setdefault("ours", self.ours())

            def others(took: dict[str, Took] = took) -> Took:
                return took.setdefault("theirs", self.theirs())

            self.round(*((mine, others) if number % 2 else (others, mine)))
            found.append((took["ours"], took["theirs"]))
        return found[1:]

    def close(self) -> None:
        self.rig.close()
        self.bare.close()


def rows(setting: Setting) -> Iterator[Row]:
    count = setting.pick(1500, 500)
    cases = (("shared next times", SHARED, 0.70), ("each its own", own_triggers(count), 0.45))
    for what, triggers, reach in cases:
        with setting.place() as folder, closing(Ground(folder, count, triggers)) as ground:
            found = ground.measure(setting.pick(15, 3))
        whole, alone = _whole(found), _claims(found)
        yield Row(
            bench="claims",
            what=f"claims and their ends in batches, {what}",
            measured=f"{count / whole.our_median:,.0f}/s",
            reference=f"bare loop {count / whole.their_median:,.0f}/s",
            ratio=1 / whole.ratio,
            low=1 / whole.middle[1],
            high=1 / whole.middle[0],
            reach=at_least(reach),
            figures={"whole": whole.figures(), "claims": alone.figures()},
            note=f"without the ends {count / alone.our_median:,.0f}/s and"
            f" {count / alone.their_median:,.0f}/s, ratio {1 / alone.ratio:.2f}",
        )


def step_rows(setting: Setting) -> Iterator[Row]:
    with setting.place() as folder, closing(Ground(folder, 100, SHARED)) as ground:
        found = ground.measure(setting.pick(41, 9))
    alone = _claims(found)
    yield Row(
        bench="step",
        what="a step over 100 due schedules",
        measured=f"{alone.our_median * 1000:.1f} ms",
        reference=f"bare statements {alone.their_median * 1000:.1f} ms",
        ratio=alone.ratio,
        low=alone.middle[0],
        high=alone.middle[1],
        reach=at_most(10, "ms"),
        value=alone.our_median * 1000,
        figures=alone.figures(),
        note=f"best {min(alone.ours) * 1000:.1f} ms and {min(alone.theirs) * 1000:.1f} ms",
    )


def _whole(found: Sequence[tuple[Took, Took]]) -> Pairs:
    return Pairs(
        ours=tuple(ours.claims_s + ours.ends_s for ours, _ in found),
        theirs=tuple(theirs.claims_s + theirs.ends_s for _, theirs in found),
    )


def _claims(found: Sequence[tuple[Took, Took]]) -> Pairs:
    return Pairs(
        ours=tuple(ours.claims_s for ours, _ in found),
        theirs=tuple(theirs.claims_s for _, theirs in found),
    )


def _wait_ms(text: str) -> int:
    """From a noon to the next time of a text."""
    found = parse_trigger(text, None).next_after_ms(START_MS)
    assert found is not None
    return found - START_MS


def _expect(found: int, count: int) -> None:
    assert found == count, f"{found} of {count}"
