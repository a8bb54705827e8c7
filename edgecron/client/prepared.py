"""A step of a plan with all that its transaction needs, computed before it begins."""

from __future__ import annotations

from edgecron.base.values import dataclass
from edgecron.formats.document_plan import Step
from edgecron.planning.next_fire import Missed
from edgecron.planning.times import CompiledSpec
from edgecron.store.schedule_changes import Retiming


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What is written for a step: what it says, compiled, and its new times.

    `compiled` None leaves the words of the schedule as they are, `enabled` None leaves that;
    `resumption` are its times where it is let go.
    """

    step: Step
    compiled: CompiledSpec | None = None
    retiming: Retiming | None = None
    enabled: bool | None = None
    resumption: Retiming | None = None
    missed: Missed | None = None
