"""Property lists of launchd, macOS's service manager."""

from __future__ import annotations

import plistlib
from pathlib import PurePosixPath

from edgecron.cli.service_marking import PLACE, marked
from edgecron.cli.service_wanted import Scope, Service

# launchd's own has neither /usr/local/bin nor Homebrew's, where the programs of most jobs are.
_PATH = "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


def label(service: Service) -> str:
    """The name that launchd knows it by."""
    return f"org.edgecron.{service.name or 'daemon'}"


def plist(service: Service, *, home: PurePosixPath) -> str:
    """The text of a property list. `home` is that of the user whose agent it is."""
    is_system = service.scope is Scope.SYSTEM
    logs = PurePosixPath("/Library/Logs") if is_system else home / "Library/Logs"
    log = str(logs / f"{service.id}.log")
    content = {
        "Label": label(service),
        "ProgramArguments": list(service.words()),
        "RunAtLoad": True,
        "KeepAlive": True,
        "ThrottleInterval": 10,
        # Jobs outlive the engine, under their supervisor, and the next engine adopts them.
        "AbandonProcessGroup": True,
        "ExitTimeOut": 90,
        "EnvironmentVariables": {"PATH": _PATH},
        "StandardOutPath": log,
        "StandardErrorPath": log,
        "WorkingDirectory": "/",
    }
    # No word of ours holds a tab: what `Service` takes is printable.
    text = plistlib.dumps(content, sort_keys=False).decode().replace("\t", "  ")
    mark = f"<!-- Written by `edgecron service install`. {PLACE} -->\n"
    return marked(text + mark)
