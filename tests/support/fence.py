"""A fence around what a test runs in this process: it writes in one folder, and starts nobody."""

from __future__ import annotations

import io
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

_STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system")
_CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.chmod",
            "os.chown", "os.truncate", "os.utime")  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT

_fenced_in: list[Path] = []  # an audit hook can't be taken back
_broken: list[str] = []
_has_hook = False
_thread = 0  # whose doings are looked at: what other tests have left behind is not its business


def _look(event: str, args: tuple[object, ...]) -> None:
    if not _fenced_in or threading.get_ident() != _thread:
        return
    if event in _STARTS:
        raise FileNotFoundError(2, "nobody is started here", str(args[0]))
    is_write = event == "open" and isinstance(args[2], int) and args[2] & _WRITING
    if not (is_write or event in _CHANGES) or not isinstance(args[0], str | bytes | os.PathLike):
        return
    path = Path(os.fsdecode(args[0])).absolute()
    if path != Path(os.devnull) and not os.path.normpath(path).startswith(str(_fenced_in[0])):
        _broken.append(f"{event} {path}")
        raise PermissionError(13, "beyond the fence", str(path))


@contextmanager
def fenced(folder: Path) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    """Run what follows in a folder, with all that edgecron could find elsewhere in it too.

    Gives what is written to stdout and stderr. Raises AssertionError for a write elsewhere.
    """
    global _has_hook, _thread
    if not _has_hook:
        sys.addaudithook(_look)
        _has_hook = True
    out, err = io.BytesIO(), io.BytesIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in [name for name in os.environ if name.startswith("EDGECRON_")]:
            patch.delenv(name)
        for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "TMPDIR"):
            patch.setenv(name, str(folder))
        patch.setenv("EDGECRON_DB", str(folder / "edgecron.db"))
        config = folder / "config.toml"
        patch.setenv("EDGECRON_CONFIG", str(config) if config.exists() else "none")
        patch.setenv("TZ", "UTC")
        patch.setattr(tempfile, "tempdir", str(folder))
        # What a module compiles to lies beside it, and is not edgecron's doing.
        patch.setattr(sys, "dont_write_bytecode", True)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        _broken.clear()
        _thread = threading.get_ident()
        _fenced_in.append(folder)
        try:
            with (
                redirect_stdout(io.TextIOWrapper(out, encoding="utf-8", write_through=True)) as o,
                redirect_stderr(io.TextIOWrapper(err, encoding="utf-8", write_through=True)) as e,
            ):
                yield out, err
                o.detach()
                e.detach()
        finally:
            _fenced_in.clear()
    assert not _broken, str(_broken)
