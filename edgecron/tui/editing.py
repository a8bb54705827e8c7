"""Adding a schedule and changing one: what opens the form from a screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType
from textual.screen import ScreenResultType

from edgecron.base.errors import EdgecronError
from edgecron.client.face import Face
from edgecron.tui.acting import ActingScreen
from edgecron.tui.bindings import bindings

if TYPE_CHECKING:
    from edgecron.model.schedule import Schedule

    _Opened = tuple[Schedule | None, Mapping[str, object]]


class EditingScreen(ActingScreen[ScreenResultType]):
    """A screen from which schedules can be added and changed."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("add", "edit")

    def named_schedule(self) -> str | None:
        """The schedule that `edit` is for now; None where there is none."""
        return None

    def saved(self, name: str) -> None:
        """A schedule was saved, and has this name."""

    def action_add(self) -> None:
        self.app.with_database(lambda: self._open_form(None))

    def action_edit(self) -> None:
        name = self.named_schedule()
        if name is None:
            self.app.tell("there is no schedule here to change", severity="warning")
        else:
            self._open_form(name)

    def _open_form(self, name: str | None) -> None:
        defaults = self.app.defaults

        def read(client: Face) -> _Opened | EdgecronError:
            # What it is made of takes a while to load, and nobody waits for that here.

            try:
                if name is None:
                    return None, defaults()
                return client.schedule(name), {}
            except EdgecronError as error:
                return error

        def show(found: _Opened | EdgecronError) -> None:
            from edgecron.tui.form import ScheduleForm

            if isinstance(found, EdgecronError):
                self.app.tell_error(found)
                return
            if self.app.screen is not self:
                return  # Something else has been gone to meanwhile, or the key was pressed twice.
            opened, given = found
            self.app.push_screen(ScheduleForm(opened, defaults=given), answered)

        def answered(name: str | None) -> None:
            if name is not None:
                self.saved(name)

        self.ask("form", read, show)
