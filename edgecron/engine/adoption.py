"""Adopting the supervisor of a dead engine, with all that it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from edgecron.clock import Clock
from edgecron.errors import SupervisorUnavailable
from edgecron.runners import Lease, Runner
from edgecron.runners.command import CommandRunner
from edgecron.store.contract import RunningRow
from edgecron.supervisor.control import Control
from edgecron.supervisor.protocol import Phase

# It always answers at once, unless it is stopped: then its journal is read meanwhile. Longer, and
# who asks how our own engine is would find it deaf.
_TIMEOUT_S = 0.2
_STARTED = (Phase.RUNNING, Phase.ENDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """What a supervisor answered, that answers to us from now on unless `runner` is None.

    `started` are the rows that it runs, or ran; the others are revoked, and will never start.
    """

    runner: Runner | None
    started: tuple[RunningRow, ...]
    revoked: tuple[RunningRow, ...]


Adopt = Callable[[str, Sequence[RunningRow]], Adoption | None]


def adopt_supervisor(
    state_dir: Path, supervisor_id: str, rows: Sequence[RunningRow], *, clock: Clock
) -> Adoption | None:
    """Become the engine of a supervisor whose own has died; None where it does not answer.

    It may be stopped, or have been faster to leave. It refuses where it was adopted by another
    engine, or speaks another version of the protocol. `rows` are all that it is said to run.
    Whatever it has not started is revoked first, so that it may be queued again.
    """
    link = None
    try:
        with Control(state_dir, supervisor_id, timeout_s=_TIMEOUT_S) as control:
            phases = control.revoke([row.lease_token for row in rows])
            with suppress(SupervisorUnavailable):  # It refuses, and has said what it runs.
                link = control.adopt()
    except SupervisorUnavailable:
        return None
    started = tuple(row for row in rows if phases[row.lease_token] in _STARTED)
    revoked = tuple(row for row in rows if row not in started)
    if link is None:
        return Adoption(runner=None, started=started, revoked=revoked)
    leases = [
        Lease(execution_id=row.execution_id, lease_token=row.lease_token, ok_codes=row.ok_codes)
        for row in started
    ]
    runner = CommandRunner(link, clock=clock, leases=leases)
    return Adoption(runner=runner, started=started, revoked=revoked)
