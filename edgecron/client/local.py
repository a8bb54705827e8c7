"""Client: a database on this machine, all its subjects in one class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgecron.formats.document_plan import Step
    from edgecron.formats.document_values import Document
    from edgecron.model.schedule import Schedule
    from edgecron.planning.times import CompiledSpec

from edgecron.client.backfill import Backfills
from edgecron.client.outlook import Outlooks
from edgecron.client.statistics import Statistics
from edgecron.client.upkeep import Upkeep


class Client(Outlooks, Backfills, Statistics, Upkeep):
    """A database of schedules and runs. For one thread; the file is opened on first use.

    `database` None is the one that the command line would use: EDGECRON_DB, else the configured
    one, else this user's default. With `must_exist`, a missing file raises NotFound instead of
    being created. `retention` None is the default retention.
    """

    # Changes of several schedules. `apply` reads and compares documents, which takes 5 ms to load:
    # a tenth of `edgecron list`.

    def plan_document(
        self, document: Document, *, origin: str, is_pruned: bool = False
    ) -> tuple[Step, ...]:
        """Return the steps that would bring the schedules to what a document wants.

        Raises InvalidDocument with everything that is wrong with it.
        """
        from edgecron.client.apply import Apply

        return Apply(self).plan(document, origin=origin, is_pruned=is_pruned)

    def check(self, step: Step) -> CompiledSpec | None:
        """Check a step as `apply` would, without a change.

        Return the compiled specification; None if it stays as it is.
        """
        from edgecron.client.apply import Apply

        return Apply(self).check(step)

    def apply(self, steps: Sequence[Step], *, origin: str) -> list[Schedule]:
        """Carry out steps, all of them or none, and return the schedules that they changed.

        Raises Conflict if somebody changed one of them since, and what a single change raises.
        """
        from edgecron.client.apply import Apply

        return Apply(self).carry_out(steps, origin=origin)

    def finish_apply(self) -> int:
        """Carry out what is left of an apply whose process is gone; return how many steps."""
        if self.store.find_pending_apply() is None:
            return 0
        from edgecron.client.apply import Apply

        return Apply(self).finish()
