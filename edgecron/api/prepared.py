"""A step of a plan with all that its transaction needs, computed before it begins."""

from __future__ import annotations

from edgecron.documents.comparing import Step
from edgecron.planning import Missed
from edgecron.store.changing import Retiming
from edgecron.timing import CompiledSpec
from edgecron.values import dataclass


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
