"""Screens with actions on schedules and runs: their keys, and what they act on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType
from textual.screen import ScreenResultType

from edgecron.base.errors import NotFound
from edgecron.tui.keys import bindings
from edgecron.tui.list_rows import Targets
from edgecron.tui.queries import QueryScreen

if TYPE_CHECKING:
    from edgecron.client.protocol import Client
    from edgecron.model.schedule import Schedule

    _Opened = tuple[Schedule | None, Mapping[str, object]]


class ActionScreen(QueryScreen[ScreenResultType]):
    """A screen with the actions on schedules and runs."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(
        "run", "pause", "resume", "reschedule", "cancel", "delete", "undo", "redo", "backfill"
    )

    def targets(self) -> Targets | None:
        """Return the targets of an action: the marked lines, or the line under the cursor."""
        return None

    def clear_marks(self) -> None:
        """Remove all marks: an action was done to the marked lines."""

    def action_run(self) -> None:
        self._begin("run")

    def action_pause(self) -> None:
        self._begin("pause")

    def action_resume(self) -> None:
        self._begin("resume")

    def action_reschedule(self) -> None:
        self._begin("reschedule")

    def action_cancel(self) -> None:
        self._begin("cancel")

    def action_delete(self) -> None:
        self._begin("delete")

    def action_undo(self) -> None:
        self._begin("undo")

    def action_redo(self) -> None:
        self._begin("redo")

    def action_backfill(self) -> None:
        self._begin("backfill")

    def _begin(self, action: str) -> None:
        # Loaded when needed: the first screen must not wait for what only actions use.
        from edgecron.tui.action_flow import begin

        begin(self, action, targets=self.targets(), clear_marks=self.clear_marks)


class EditScreen(ActionScreen[ScreenResultType]):
    """A screen from which schedules can be added and changed."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("add", "add_form", "edit", "changes", "graph")

    def current_schedule(self) -> str | None:
        """Return the schedule that `edit` opens; None without one."""
        return None

    def schedule_saved(self, name: str) -> None:
        """Show the schedule that the form saved under this name."""

    def action_add(self) -> None:
        self.app.ensure_database(lambda: self.prepare(self._add()))

    def action_add_form(self) -> None:
        self.app.ensure_database(lambda: self._open_form(None))

    async def _add(self) -> None:
        # Loaded when needed: the first screen must not wait for it.
        from edgecron.tui.quick_add import QuickAdd

        if self.app.screen is not self:
            return  # The key was pressed twice.
        answer = await self.app.push_screen_wait(QuickAdd(self.app.defaults))
        if answer is None:
            return
        if answer.texts is None:
            self.schedule_saved(answer.name)
            return
        try:
            await self._edit(None, texts=answer.texts)
        finally:
            self.app.drop_keys()

    def action_edit(self) -> None:
        name = self.current_schedule()
        if name is None:
            self.app.show_notice(
                "select a schedule first: nothing here to edit", severity="warning"
            )
        else:
            self._open_form(name)

    def action_changes(self) -> None:
        name = self.current_schedule()
        if name is None:
            self.app.show_notice(
                "select a schedule first, then list its changes", severity="warning"
            )
        else:
            self.prepare(self._list_changes(name))

    def action_graph(self) -> None:
        name = self.current_schedule()
        if name is None:
            self.app.show_notice(
                "select a schedule first: its graph shows what it waits for", severity="warning"
            )
            return
        # Loaded when needed: few people have dependent schedules.
        from edgecron.tui.graph_screen import GraphScreen

        if self.app.screen is self:
            self.app.push_screen(GraphScreen(name))

    async def _list_changes(self, name: str) -> None:
        from edgecron.tui.schedule_facts import MOST_CHANGES, ChangeList

        try:
            found = await self.answer_to(
                "changes", lambda client: client.changes(name, limit=MOST_CHANGES)
            )
        except NotFound as error:
            self.app.show_error(error)
            return
        if self.app.screen is self:  # Otherwise the user went to another screen.
            shown = ChangeList(name, found, zone=self.app.zone, now=self.app.now())
            self.app.push_screen(shown)

    def _open_form(self, name: str | None) -> None:
        self.prepare(self._edit(name))

    async def _edit(self, name: str | None, *, texts: Mapping[str, str] | None = None) -> None:
        # Loaded when needed: the first screen must not wait for the form.
        from edgecron.tui.form import ScheduleForm

        defaults = self.app.defaults

        def read(client: Client) -> _Opened:
            return (None, defaults()) if name is None else (client.schedule(name), {})

        try:
            opened, given = await self.answer_to("form", read)
        except NotFound as error:
            self.app.show_error(error)
            return
        if self.app.screen is not self:
            return  # The user went to another screen, or pressed the key twice.
        saved = await self.app.push_screen_wait(ScheduleForm(opened, defaults=given, texts=texts))
        if saved is not None:
            self.schedule_saved(saved)
