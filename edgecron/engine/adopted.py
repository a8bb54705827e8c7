"""What adopting a supervisor brings, as a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgecron.base.values import dataclass
from edgecron.store.contract import RunningRow
from edgecron.supervisor.runner import Runner


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """What a supervisor answered, that answers to us from now on unless `runner` is None.

    `started` are the rows that it runs, or ran, and whose ends it has for us; those that are
    `revoked` will never start. What is neither has its end on record by now.
    """

    runner: Runner | None
    started: tuple[RunningRow, ...]
    revoked: tuple[RunningRow, ...]


Adopt = Callable[[str, Sequence[RunningRow]], Adoption | None]
