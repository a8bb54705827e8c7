"""From what the store granted to what a runner needs."""

from __future__ import annotations

from edgecron.base.values import replace
from edgecron.model.choices import Reason, Status
from edgecron.model.claim import Claim, Outcome
from edgecron.model.schedule import ScheduleSpec
from edgecron.store.contract import Granted
from edgecron.supervisor.flags import Flag


def claim_of(grant: Granted, spec: ScheduleSpec) -> Claim:
    """The claim of a granted row, with the specification of its revision.

    Raises InvalidInput where its own payload is one that no edgecron writes.
    """
    job = spec.job
    if grant.payload is not None:
        job = replace(job, payload=grant.payload)
    return Claim(
        execution_id=grant.execution_id,
        lease_token=grant.lease_token,
        schedule_id=grant.schedule_id,
        schedule=spec.name,
        job=job,
        plan_ms=grant.plan_ms,
        due_ms=grant.due_ms,
        fire_key=grant.fire_key,
        cause=grant.cause,
        attempt=grant.attempt,
        max_attempts=grant.max_attempts,
        scope_kind=grant.scope_kind,
        scope_id=grant.scope_id,
        policies=spec.policies,
        fence=grant.fence,
        upstream=grant.upstream,
    )


def unreadable(grant: Granted, why: str | None, *, now_ms: int) -> Outcome:
    """The end of a granted row whose specification can't be read: it has failed."""
    return Outcome(
        execution_id=grant.execution_id,
        lease_token=grant.lease_token,
        status=Status.FAILED,
        reason=Reason.SPAWN,
        finished_ms=now_ms,
        error_msg=why or "its schedule's revision is gone",
    )


def not_started(claim: Claim, *, now_ms: int) -> Outcome:
    """What becomes of a command where there is no supervisor: it may be queued again."""
    return Outcome(
        execution_id=claim.execution_id,
        lease_token=claim.lease_token,
        status=Status.FAILED,
        reason=Reason.SPAWN,
        finished_ms=now_ms,
        error_msg="there is no supervisor yet",
        flags=(Flag.NOT_STARTED,),
    )
