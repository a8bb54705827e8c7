"""The service managers of this machine: carrying plans out, and asking how a service is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from edgecron.base.errors import EdgecronError, os_words
from edgecron.base.files import check_folder, write_whole
from edgecron.base.paths import make_folders
from edgecron.base.values import dataclass
from edgecron.cli.service_planning import (
    Call,
    Deed,
    MakeLink,
    RemoveFile,
    RemoveFolder,
    Seen,
    UnitState,
    WriteFile,
    systemctl,
)
from edgecron.cli.service_wanted import Manager, Service

_BOUND_S = 120  # systemd waits for READY before a start has succeeded


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command of a service manager said. `code` is 127 where there is no such command."""

    code: int
    out: str
    err: str


def find_manager(*, root: Path = Path("/")) -> Manager | None:
    """Who runs services on this machine; None where nobody does whom we know."""
    if sys.platform == "darwin":
        return Manager.LAUNCHD
    marks = {
        "run/systemd/system": Manager.SYSTEMD,  # sd_booted(3)
        "run/openrc": Manager.OPENRC,
        "sbin/procd": Manager.PROCD,
    }
    return next((manager for mark, manager in marks.items() if (root / mark).exists()), None)


def ask(argv: Sequence[str]) -> Answer:
    """Run a command of a service manager, bounded."""
    try:
        said = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_BOUND_S,
            check=False,
        )
    except FileNotFoundError:
        return Answer(code=127, out="", err=f"{argv[0]} is not installed")
    except subprocess.TimeoutExpired:
        return Answer(code=1, out="", err=f"no answer within {_BOUND_S} s")
    return Answer(code=said.returncode, out=said.stdout.strip(), err=said.stderr.strip())


def see(paths: Iterable[Path]) -> Seen:
    """The texts of files, of those that are there. Raises EdgecronError where one can't be read."""
    texts = {}
    for path in paths:
        try:
            texts[path] = path.read_text("utf-8", "surrogateescape")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise EdgecronError(f"{path} can't be read: {os_words(error)}") from error
    return Seen(texts=texts)


def carry_out(deeds: Iterable[Deed], *, tell: Callable[[Deed], object]) -> None:
    """Do one after the other, told before each. Raises EdgecronError where one can't be done."""
    for deed in deeds:
        tell(deed)
        try:
            _do(deed)
        except OSError as error:
            raise EdgecronError(
                os_words(error), hint="what was done before it stays done; begin again"
            ) from error


def _do(deed: Deed) -> None:
    match deed:
        case WriteFile(path=path, text=text):
            make_folders(path.parent, mode=0o755)
            # Readable for all: so are those of packages.
            write_whole(path, [text.encode("utf-8", "surrogateescape")], mode=0o644)
        case RemoveFile(path=path):
            path.unlink(missing_ok=True)
        case RemoveFolder(path=path):
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()
        case MakeLink(path=path, target=target):
            make_folders(path.parent, mode=0o755)
            check_folder(path.parent)
            path.unlink(missing_ok=True)
            path.symlink_to(target)
        case Call(argv=argv, may_fail=may_fail):
            answer = ask(argv)
            if answer.code != 0 and not may_fail:
                raise EdgecronError(
                    f"{' '.join(argv)}: {answer.err or answer.out or f'exit code {answer.code}'}"
                )


def ask_systemd(service: Service) -> UnitState | None:
    """How systemd has a unit; None where it can't be asked, as without a session."""
    argv = [*systemctl(service.scope), "show", f"{service.id}.service"]
    answer = ask([*argv, "--property=ActiveState,SubState,UnitFileState,MainPID,StatusText"])
    if answer.code != 0:
        return None
    told = dict(line.split("=", 1) for line in answer.out.splitlines() if "=" in line)
    pid = told.get("MainPID", "0")
    return UnitState(
        active=f"{told.get('ActiveState', 'unknown')} ({told.get('SubState', 'unknown')})",
        enabled=told.get("UnitFileState") or "not installed",
        pid=int(pid) if pid.isdigit() and pid != "0" else None,
        says=told.get("StatusText") or None,
    )
