"""A text that a person edits: in a file of their own, by the editor of their choice.

It is never lost: unless it was taken over or dropped, the file stays, and they are told where.
"""

from __future__ import annotations

import os
import re
from types import TracebackType
from typing import TYPE_CHECKING, Self

from edgecron.base.errors import InvalidInput, UsageError

if TYPE_CHECKING:
    from edgecron.cli.session import Session

_MARK = "# ! "  # begins the lines that tell what is wrong
_MOST_BYTES = 16 * 1024 * 1024
_STDERR = 2
_HEADING = re.compile(r"^\[schedules\..*\]$", re.MULTILINE)
_FALLBACKS = ("editor", "nano", "vi")


class Draft:
    """A file of mode 0600 in a folder of mode 0700, removed at the end where nothing is in it.

    `schedule` is the name of what it is the text of. `settle` says that it is no longer needed.
    """

    def __init__(self, cli: Session, *, schedule: str, text: str) -> None:
        from tempfile import mkdtemp

        self._cli = cli
        self._original = text
        self._is_settled = False
        self._schedule = schedule
        self._folder = mkdtemp(prefix="edgecron-edit-")
        self.path = os.path.join(self._folder, f"{schedule}.toml")
        self._write(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_settled or not self.is_changed():
            from shutil import rmtree

            rmtree(self._folder, ignore_errors=True)
        else:
            self._cli.say(f"your text is kept in {self.path}")
            self._cli.say(f"when it is mended: {self._taking_over()}")

    def _taking_over(self) -> str:
        """The command that takes over what is kept, once it is right."""
        from shlex import quote

        heading = _HEADING.search(self._original)
        if heading is None or heading[0].encode() in self.read().splitlines():
            return self._cli.command(f"apply {quote(self.path)}")
        # With another name, apply would make or change another schedule, beside this one.
        editor = quote(f"cp {quote(self.path)}")
        return f"VISUAL={editor} {self._cli.command(f'edit {self._schedule}')}"

    def settle(self) -> None:
        """Let the file be removed: its text was taken over, or nobody wants it."""
        self._is_settled = True

    def edit(self) -> None:
        """Let the person edit it. Raises InvalidInput where the editor can't be run, or fails."""
        import signal
        import subprocess
        import sys

        command, whose = find_editor()
        # Ctrl-C is the editor's; a handler of ours is not inherited, being ignored would be.
        before = signal.signal(signal.SIGINT, lambda *_: None)
        try:
            ended = subprocess.run(
                [*command, self.path],
                # What it shows is no result of ours.
                stdout=None if sys.stdout.isatty() else _STDERR,
                check=False,
            )
        except (OSError, ValueError) as error:
            from edgecron.base.errors import os_words

            raise InvalidInput(
                f"the editor {command[0]!r}{whose} can't be started:"
                f" {os_words(error, is_named=True)}",
                hint="set VISUAL or EDITOR to one that is there",
            ) from None
        finally:
            signal.signal(signal.SIGINT, before)
        if ended.returncode != 0:
            code = ended.returncode
            how = f"exit code {code}" if code > 0 else f"signal {-code}"
            raise InvalidInput(f"the editor {command[0]!r} failed with {how}, nothing is changed")

    def read(self) -> bytes:
        """The text as it is now, without the lines that `mark` has put into it."""
        try:
            with open(self.path, "rb") as file:
                content = file.read(_MOST_BYTES + 1)
        except FileNotFoundError:
            return b""
        mark = _MARK.encode()
        if mark not in content:
            return content
        return b"".join(
            line for line in content.splitlines(keepends=True) if not line.startswith(mark)
        )

    def is_changed(self) -> bool:
        """Whether there is a text, and another one than at first."""
        content = self.read().strip()
        return content not in (b"", self._original.encode().strip())

    def mark(self, words: list[str]) -> None:
        """Put what is wrong at the top, instead of what was there before."""
        lines = [_MARK + " ".join(one.split()) + "\n" for one in words]
        self._write("".join(lines).encode() + self.read())

    def _write(self, text: str | bytes) -> None:
        content = text.encode() if isinstance(text, str) else text
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with open(fd, "wb") as file:
            file.write(content)


def find_editor() -> tuple[list[str], str]:
    """The words of the editor's command line, and ` of $EDITOR` where it comes from there."""
    from shlex import split
    from shutil import which

    for variable in ("VISUAL", "EDITOR"):
        text = os.environ.get(variable, "").strip()
        if text:
            try:
                return split(text), f" of ${variable}"
            except ValueError as error:
                raise UsageError(f"${variable} is {text!r}, which is no command: {error}") from None
    for name in _FALLBACKS:
        if which(name):
            return [name], ""
    raise UsageError(
        f"there is no editor: neither $VISUAL nor $EDITOR, nor {', '.join(_FALLBACKS)}",
        hint="set EDITOR, or change single options: edgecron edit --help",
    )


def is_editor_set() -> bool:
    """Whether a person, or a script, says which editor to use."""
    return any(os.environ.get(variable, "").strip() for variable in ("VISUAL", "EDITOR"))
