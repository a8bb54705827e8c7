"""The program: `edgecron` and `python -m edgecron`."""

from __future__ import annotations

import gc
import io
import os
import sys

TYPE_CHECKING = False  # As type checkers read it; `typing` would cost more than all the rest.
if TYPE_CHECKING:
    from types import TracebackType


def main() -> None:
    """Run the command line and exit with its code."""
    if sys.platform == "win32":
        # Before any other import: modules such as fcntl do not exist there.
        sys.stderr.write("edgecron: Windows is not supported: use Linux, macOS or WSL\n")
        sys.exit(2)
    # While modules load there is no garbage, and looking for it costs a tenth of a start.
    gc.disable()
    _fill_streams()
    _refuse_borrowed_rights()
    sys.excepthook = _show_crash
    try:
        from edgecron.cli import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130  # Before or after all else: 128 + SIGINT, as shells have it.
    # The interpreter would search all modules for garbage before it ends: a tenth of `list`.
    gc.freeze()
    sys.exit(code)


def _refuse_borrowed_rights() -> None:
    """End if the program is set-user-id: any caller could run anything."""
    if (os.getuid(), os.getgid()) != (os.geteuid(), os.getegid()):
        sys.stderr.write("error: edgecron runs with the rights of its file's owner or group\n")
        sys.exit("hint: remove this from the file that you started: chmod ug-s FILE")


def _show_crash(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    from edgecron.cli.output import show_crash

    show_crash(kind, error, trace)


def _fill_streams() -> None:
    """Open what the caller closed: a database file must never become descriptor 1 or 2."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # Never closed again: it stands for the stream as long as the program runs.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    stdout = sys.stdout
    if isinstance(getattr(stdout, "buffer", None), io.RawIOBase):
        # A Python that is told not to buffer, as in containers, writes a part where a disk is full
        # or a reader goes, and says so to nobody. By lines all is written, or it raises.
        sys.stdout = open(  # noqa: SIM115
            stdout.fileno(), "w", 1, stdout.encoding, stdout.errors, closefd=False
        )


if __name__ == "__main__":
    main()
