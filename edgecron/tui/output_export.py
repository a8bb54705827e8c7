"""Copy an output to the clipboard, save it to a file, or show it in a pager.

A copy goes to the terminal by an escape sequence (OSC 52). It reaches the user's own clipboard
through ssh and tmux, if the terminal allows it. A clipboard program also gets the copy.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from textual.app import SuspendNotSupported

from edgecron.base.errors import AlreadyExists, EdgecronError, InvalidInput, os_words
from edgecron.base.pager import page, pager_command
from edgecron.base.paths import resolve_path
from edgecron.base.safetext import clean
from edgecron.client import Client as LocalClient
from edgecron.client.backup import partial_file, put_in_place, refuse_own
from edgecron.client.following import Piece
from edgecron.client.protocol import Client
from edgecron.tui.action_screen import EditScreen
from edgecron.tui.dialogs import CheckResult, ConfirmDialog, Field, Lines, ShowCheck
from edgecron.tui.output_text import whole_text
from edgecron.tui.output_view import OutputView
from edgecron.tui.run_facts import RunFacts
from edgecron.views.phrases import count_words

# Terminals ignore a longer sequence.
MOST_SEQUENCE_BYTES = 74_994
_TIMEOUT_S = 2.0


def save_output(
    client: Client, execution_id: int, given: str, *, name: str, may_replace: bool = False
) -> tuple[Path, int]:
    """Write the output so far to a file, byte for byte; return its path and size in bytes.

    In a folder, the file is called `name`. A line marks skipped bytes. Raises AlreadyExists if the
    file exists and `may_replace` is not set, EdgecronError if it can't be written.
    """
    try:
        path = _target(client, given, name=name, may_replace=may_replace)
        with client.follower(execution_id) as follower:
            content = b"".join(_contents(follower.read_kept(client.execution(execution_id))))
        with partial_file(path.parent) as partial:
            partial.write_bytes(content)
            put_in_place(partial, path, replace=may_replace)
    except OSError as error:
        raise EdgecronError(f"{given} can't be written: {os_words(error)}") from error
    return path, len(content)


def _target(client: Client, given: str, *, name: str, may_replace: bool) -> Path:
    path = resolve_path(given, what="file")
    if path.is_dir():
        path /= name
    if not path.parent.is_dir():
        raise InvalidInput(f"folder {path.parent} does not exist")
    if isinstance(client, LocalClient):  # Otherwise its files are on another machine.
        refuse_own(client.path, path)
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return path
    if not stat.S_ISREG(mode):
        raise InvalidInput(f"{path} is not a regular file")
    if not may_replace:
        raise AlreadyExists(f"{path} already exists")
    return path


def _contents(pieces: Iterable[Piece]) -> Iterator[bytes]:
    for skipped, chunk in pieces:
        if skipped:
            yield f"\n[... {skipped:,} bytes dropped ...]\n".encode()
        yield chunk.content


def clipboard_command(
    environ: Mapping[str, str],
    *,
    platform: str = sys.platform,
    which: Callable[[str], str | None] = shutil.which,
) -> tuple[str, ...] | None:
    """Return the clipboard program of this machine; None if there is none."""
    wanted = (
        (platform == "darwin", ("pbcopy",)),
        (bool(environ.get("WAYLAND_DISPLAY")), ("wl-copy",)),
        (bool(environ.get("DISPLAY")), ("xclip", "-selection", "clipboard")),
    )
    for is_here, command in wanted:
        if is_here and which(command[0]) is not None:
            return command
    return None


def fits_sequence(text: str) -> bool:
    """Return whether a text is short enough for the escape sequence."""
    return len(b64encode(text.encode())) <= MOST_SEQUENCE_BYTES


def copy_with(command: tuple[str, ...], text: str) -> bool:
    """Pass a text to a program, within 2 s; return whether it took the text."""
    try:
        # It stays alive to serve the clipboard: it must not hold our descriptors open.
        done = subprocess.run(
            command,
            input=text.encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


class ExportScreen(EditScreen[None]):
    """A screen with an output that can be copied, saved and paged."""

    execution_id: int
    found: RunFacts | None  # None until it is read

    @property
    def view(self) -> OutputView:
        return self.query_one(OutputView)

    def default_name(self) -> str:
        """Return the default name of the file."""
        # The name of a schedule written by SQL can be anything.
        name = "run" if self.found is None else clean(self.found.run.schedule).replace("/", "-")
        return f"{name}-{self.execution_id}.log"

    # To the clipboard.

    def action_copy(self) -> None:
        """Copy the selection; without one, the whole output."""
        view = self.view
        text = view.selected_text() or whole_text(view.printed)
        if not text:
            self.app.show_notice("nothing to copy: the run has printed nothing")
            return
        count = view.count if view.selection is None else view.selection.line_count
        what = count_words(count, "line")
        if view.selection is not None:
            view.clear_selection()
        is_short = fits_sequence(text)
        if is_short:
            self.app.copy_to_clipboard(text)
        self.run_worker(self._copy_with_program(text, what, is_short=is_short))

    async def _copy_with_program(self, text: str, what: str, *, is_short: bool) -> None:
        command = clipboard_command(os.environ)
        if command is not None and await asyncio.to_thread(copy_with, command, text):
            self.app.show_notice(f"copied {what} with {command[0]}")
        elif is_short:
            self.app.show_notice(f"copied {what} to the terminal's clipboard")
        else:
            self.app.show_notice(
                f"{what} are too many for the terminal's clipboard: save the output instead",
                severity="error",
            )

    # To a file.

    def action_save(self) -> None:
        def check(texts: tuple[str, ...], show: ShowCheck[str]) -> None:
            given = texts[0]
            show(CheckResult(clean(_place_words(given)), given) if given else CheckResult(""))

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
                self.app.show_error(error)

        def done(found: tuple[Path, int]) -> None:
            path, size_bytes = found
            self.app.show_notice(f"wrote {size_bytes:,} bytes to {path}")

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

        question = ConfirmDialog(
            "Save the output",
            [f"{error.message}."],
            yes="replace it",
            no="keep the file",
            is_danger=True,
        )
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
                    refused = error  # Raised here, it would leave the terminal suspended.
        except SuspendNotSupported:
            self.app.show_notice("a pager needs a terminal of its own", severity="error")
        except EdgecronError as error:
            refused = error
        if refused is not None:
            self.app.show_error(refused)


def _place_words(given: str) -> str:
    """Say in which folder a relative path lies."""
    if Path(given).is_absolute() or given[:1] == "~":
        return ""
    try:
        return f"in {Path.cwd()}"
    except FileNotFoundError:
        return ""  # If the folder is gone, writing the file reports it.
