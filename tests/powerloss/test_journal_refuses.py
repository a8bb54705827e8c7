"""The disk refuses the Nth operation on a supervisor's journal, once or for a while.

What was told to be on record is; what was started is never taken for what was not; and once the
disk takes writes again the journal is whole, with all that it should hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from edgecron.supervisor import journal as journal_module
from edgecron.supervisor.journal import Exit, Journal, NeverStarted, judge, read_journal
from edgecron.supervisor.protocol import EndCause, ExitRecord
from tests.powerloss.faults import Duration, Faults, Op, Trouble
from tests.powerloss.recorder import recording
from tests.support.clock import FakeClock

KEY = "0123456789abcdef"
BOOT = "boot-1"
OPS = (Op.WRITE, Op.TRUNCATE, Op.OPEN)
MOST = 40  # operations of a kind, more than a life has


class Life:
    """What a supervisor does with its journal, and what it believes of it."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self.journal = Journal(state_dir, KEY, boot_id=BOOT)
        self.started: list[str] = []
        self.ended: list[str] = []
        self.refused: list[str] = []
        self.revoked: list[str] = []
        self.acknowledged: list[str] = []

    def run_through(self, name: str, *, count: int) -> None:
        """Some runs: tokens, starts, ends, and some that are revoked before their start."""
        tokens = [f"{name}-{number}" for number in range(count)]
        try:
            self.journal.write_tokens(tokens)
        except OSError:
            self.refused += tokens
            return
        self.revoked += tokens[:1]
        self.journal.add_revoked(tokens[:1])
        for pid, token in enumerate(tokens[1:], start=100):
            self.started.append(token)
            self.journal.add_start(token, pid=pid, start_time=1, started_ms=2)
        self.flush()
        self.check()
        for token in tokens[1:]:
            self.ended.append(token)
            self.journal.add_exit(record_of(token).to_json())
            self.flush()
            self.check()

    def acknowledge(self, tokens: Iterable[str]) -> None:
        self.acknowledged += tokens
        needed = {*self.started} - {*self.acknowledged}
        with suppress(OSError):  # So does the recorder: the next one tries again.
            self.journal.shrink(needed)
        self.check()

    def flush(self) -> None:
        with suppress(OSError):  # So does the recorder, and tries again later.
            self.journal.write_backlog()

    def check(self) -> None:
        """What a process that comes after us would find now."""
        state = read_journal(self._state_dir, KEY)
        for token in self.started:
            verdict = judge(state, token, boot_id=BOOT)
            if token not in self.acknowledged:
                assert verdict != NeverStarted(), f"{token} was started"
            if isinstance(verdict, Exit):
                assert verdict.record == record_of(token)

    def check_whole(self) -> None:
        """Once the disk is well."""
        self.flush()
        assert not self.journal.has_backlog
        state = read_journal(self._state_dir, KEY)
        assert state.is_intact
        open_ends = [token for token in self.ended if token not in self.acknowledged]
        for token in open_ends:
            assert judge(state, token, boot_id=BOOT) == Exit(record=record_of(token))
        for token in [*self.refused, *self.revoked]:
            assert judge(state, token, boot_id=BOOT) == NeverStarted()
        found = self.journal.find_exits(open_ends)
        assert {body["token"] for body in found} == set(open_ends)


def record_of(token: str) -> ExitRecord:
    return ExitRecord(
        token=token, cause=EndCause.EXIT, finished_ms=90, exit_code=3, error_msg="x" * 100
    )


def live(folder: Path, faults: Faults, *, heals_after: int) -> int:
    """A life in which the disk refuses, and heals after so many refusals; how many there were."""
    folder.mkdir()
    with recording(FakeClock(), folder, faults=faults) as recorder:

        def maybe_heal() -> None:
            if faults.met >= heals_after:
                faults.heal()

        life = Life(folder)
        faults.arm()
        for name in ("first", "second", "third"):
            life.run_through(name, count=3)
            maybe_heal()
            life.acknowledge(token for token in life.ended if token.endswith("1"))
            maybe_heal()
        life.acknowledge(life.ended[:])
        life.run_through("fourth", count=2)
        faults.heal()
        life.check_whole()
        life.run_through("last", count=3)
        life.check_whole()
        life.journal.close()
        assert recorder.log
    return faults.met


@pytest.fixture
def small_journals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Journals that are soon long enough to be written anew, or cut off."""
    monkeypatch.setattr(journal_module, "ROTATE_BYTES", 500)
    monkeypatch.setattr(journal_module, "TRUNCATE_BYTES", 200)


@pytest.mark.failure(51)
@pytest.mark.usefixtures("small_journals")
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("trouble", Trouble)
@pytest.mark.parametrize(
    ("duration", "heals_after"), [(Duration.ONCE, 1), (Duration.LASTING, 2), (Duration.LASTING, 9)]
)
def test_whichever_operation_is_refused_the_journal_is_right_and_then_whole(
    tmp_path: Path, op: Op, trouble: Trouble, duration: Duration, heals_after: int
) -> None:
    met = 0

    for nth in range(1, MOST):
        faults = Faults(trouble=trouble, op=op, nth=nth, duration=duration)
        try:
            now_met = live(tmp_path / str(nth), faults, heals_after=heals_after)
        except AssertionError as error:
            error.add_note(f"refused {op} number {nth}")
            raise
        met += now_met
        if not now_met:
            break

    assert met > 0
