"""Taking an output away: to the clipboard, to a file, to a pager."""

from __future__ import annotations

import os
from pathlib import Path

from textual.app import SuspendNotSupported

from edgecron.base.errors import AlreadyExists, EdgecronError
from edgecron.base.pager import page, pager_command
from edgecron.base.safetext import clean
from edgecron.tui.acting import ActingScreen
from edgecron.tui.clipboard import clipboard_command, copy_with, fits_sequence
from edgecron.tui.dialogs import Checked, Field, Lines, Told, YesNo
from edgecron.tui.output import OutputView
from edgecron.tui.runfacts import RunFacts
from edgecron.tui.saving import save_output
from edgecron.tui.selection import whole_text
from edgecron.views.phrases import count_words


class TakingScreen(ActingScreen[None]):
    """A screen of a run's output, which can be copied, saved and paged."""

    execution_id: int
    found: RunFacts | None  # None until it was read

    @property
    def view(self) -> OutputView:
        return self.query_one(OutputView)

    def default_name(self) -> str:
        """What a file is called that nobody has named."""
        # The name of a schedule that somebody planted could be anything.
        name = "run" if self.found is None else clean(self.found.run.schedule).replace("/", "-")
        return f"{name}-{self.execution_id}.log"

    # To the clipboard.

    def action_copy(self) -> None:
        selection, text = self.view.selection, self.view.selected_text()
        if selection is None or not text:
            self.app.tell("nothing is selected: drag with the mouse, or space and j or k")
            return
        what = count_words(selection.line_count, "line")
        self.view.leave()
        is_short = fits_sequence(text)
        if is_short:
            self.app.copy_to_clipboard(text)
        command = clipboard_command(os.environ)
        if command is None:
            self._tell_copied(what, is_short=is_short, by=None)
            return
        self.run_worker(
            lambda: self._copy_with(command, text, what, is_short=is_short), thread=True
        )

    def _copy_with(self, command: tuple[str, ...], text: str, what: str, *, is_short: bool) -> None:
        by = command[0] if copy_with(command, text) else None
        self.app.deliver(lambda: self._tell_copied(what, is_short=is_short, by=by))

    def _tell_copied(self, what: str, *, is_short: bool, by: str | None) -> None:
        if by is not None:
            self.app.tell(f"copied {what}, by {by}")
        elif is_short:
            self.app.tell(f"copied {what}, to the terminal's clipboard")
        else:
            self.app.tell(
                f"{what} are more than a terminal takes: save them instead", severity="error"
            )

    # To a file.

    def action_save(self) -> None:
        def check(texts: tuple[str, ...], told: Told[str]) -> None:
            given = texts[0]
            told(Checked(clean(_place_words(given)), given) if given else Checked(""))

        self.app.push_screen(
            Lines(
                "Save the output",
                fields=(Field("file", self.default_name()),),
                check=check,
                yes="save",
            ),
            self._save,
        )

    def _save(self, given: str | None) -> None:
        if given:
            self._write(given, may_replace=False)

    def _write(self, given: str, *, may_replace: bool) -> None:
        execution_id, name = self.execution_id, self.default_name()

        def refused(error: EdgecronError) -> None:
            if isinstance(error, AlreadyExists):
                self._ask_to_replace(given, error)
            else:
                self.app.tell_error(error)

        def done(found: tuple[Path, int]) -> None:
            path, size_bytes = found
            self.app.tell(f"wrote {size_bytes:,} bytes to {path}")

        self.app.do(
            f"save {given}",
            lambda client: save_output(
                client, execution_id, given, name=name, may_replace=may_replace
            ),
            done=done,
            refused=refused,
        )

    def _ask_to_replace(self, given: str, error: EdgecronError) -> None:
        def answered(is_agreed: bool | None) -> None:
            if is_agreed:
                self._write(given, may_replace=True)

        question = YesNo("Save the output", [f"{error.message}."], yes="replace it", is_danger=True)
        self.app.push_screen(question, answered)

    # To a pager.

    def action_pager(self) -> None:
        refused = None
        try:
            command = pager_command(os.environ)
            with self.app.suspend():
                try:
                    page(command, whole_text(self.view.printed))
                except EdgecronError as error:
                    refused = error  # Raised in here it would leave the terminal lent for ever.
        except SuspendNotSupported:
            self.app.tell("a pager needs a terminal of its own", severity="error")
        except EdgecronError as error:
            refused = error
        if refused is not None:
            self.app.tell_error(refused)


def _place_words(given: str) -> str:
    """Where a file will be that is not named in full."""
    if Path(given).is_absolute() or given[:1] == "~":
        return ""
    try:
        return f"in {Path.cwd()}"
    except FileNotFoundError:
        return ""  # Where it was removed, it is said when the file is to be written.
