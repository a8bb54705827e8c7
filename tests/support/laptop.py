"""An engine on a laptop whose state a test sets."""

from __future__ import annotations

from pathlib import Path

from edgecron.model.run import Execution
from tests.support.clock import FakeClock
from tests.support.fakemachine import FakeMachine, FakeReports
from tests.support.story import START_MS, Story


class Laptop:
    """An engine on a machine whose state a test sets."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock(START_MS)
        self.machine = FakeMachine(folder / "root", self.clock)
        self.reports = FakeReports()
        self.story = Story(
            folder / "story.db", clock=self.clock, hosting=self.machine.hosting(self.reports)
        )

    def report(self) -> None:
        """The kernel reports a change, and the engine wakes."""
        self.story.engine.conditions.hear()
        self.story.engine.step()

    def wake_after_s(self, most_s: float) -> float:
        """Sleep as long as the engine wants to, at most this long; how many seconds."""
        wake_ms = self.story.engine.step().wake_ms
        wait_ms = most_s * 1000
        if wake_ms is not None:
            wait_ms = min(wait_ms, max(0, wake_ms - self.clock.now_ms()))
        self.story.after_s(wait_ms / 1000)
        return wait_ms / 1000

    def shown(self, name: str) -> list[str]:
        return [_shown(run) for run in self.story.runs(name)]


def _shown(run: Execution) -> str:
    if run.waiting_for is not None:
        return f"waits for {run.waiting_for}"
    return f"{run.status}:{run.reason}" if run.reason else str(run.status)
