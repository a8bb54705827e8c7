"""Adopting the supervisor of a dead engine, with all that it runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from edgecron.base.clock import Clock
from edgecron.base.errors import SupervisorUnavailable
from edgecron.engine.adopted import Adoption
from edgecron.store.contract import RunningRow
from edgecron.supervisor.command_runner import CommandRunner
from edgecron.supervisor.control import Control
from edgecron.supervisor.link import SupervisorLink
from edgecron.supervisor.protocol import Phase
from edgecron.supervisor.runner import Lease

# It always answers at once, unless it is stopped: then its journal is read meanwhile. Longer, and
# who asks how our own engine is would find it deaf.
_TIMEOUT_S = 0.2
_STARTED = (Phase.RUNNING, Phase.ENDED)


def adopt_supervisor(
    state_dir: Path, supervisor_id: str, rows: Sequence[RunningRow], *, clock: Clock
) -> Adoption | None:
    """Become the engine of a supervisor whose own has died; None where it does not answer.

    It may be stopped, or have been faster to leave. It refuses where it was adopted by another
    engine, or speaks another version of the protocol. `rows` are all that it is said to run.
    Whatever it has not started is revoked first, so that it may be queued again.
    """
    link = None
    tokens = [row.lease_token for row in rows]
    try:
        with Control(state_dir, supervisor_id, timeout_s=_TIMEOUT_S) as control:
            phases = control.revoke(tokens)
            with suppress(SupervisorUnavailable):  # It refuses, and has said what it runs.
                link = control.adopt()
        started = [token for token in tokens if phases[token] in _STARTED]
        if link is not None:
            started = _still_started(link, started)
    except SupervisorUnavailable:
        if link is not None:
            link.close()
        return None
    ours = tuple(row for row in rows if row.lease_token in started)
    revoked = tuple(row for row in rows if phases[row.lease_token] not in _STARTED)
    if link is None:
        return Adoption(runner=None, started=ours, revoked=revoked)
    leases = [
        Lease(execution_id=row.execution_id, lease_token=row.lease_token, ok_codes=row.ok_codes)
        for row in ours
    ]
    runner = CommandRunner(link, clock=clock, leases=leases)
    return Adoption(runner=runner, started=ours, revoked=revoked)


def _still_started(link: SupervisorLink, tokens: Sequence[str]) -> list[str]:
    """Those whose end we shall be told of; of the others somebody else was, and has written it.

    Asked when nobody but us can take an end in any more: an engine that died a moment ago may
    have done so since the first question, and what it took in nobody tells us.
    """
    if not tokens:
        return []
    with Control(link.state_dir, link.supervisor_id, timeout_s=_TIMEOUT_S) as control:
        phases = control.revoke(tokens)
    return [token for token in tokens if phases[token] in _STARTED]
