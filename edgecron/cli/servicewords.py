"""What an install or uninstall of a service does, as lines and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from edgecron.cli.service_planning import (
    Call,
    Deed,
    MakeLink,
    RemoveFile,
    RemoveFolder,
    WriteFile,
    diff_lines,
)


def deed_lines(deed: Deed) -> Iterator[str]:
    """One line, and of a file that is written its text, or what changes in it."""
    match deed:
        case WriteFile(path=path, text=text, before=before):
            yield f"{'write' if before is None else 'change':<8}{path}"
            lines = text.splitlines()
            if before is not None:
                lines = diff_lines(path, before=before, text=text)
            yield from (f"    {line}".rstrip() for line in lines)
        case RemoveFile(path=path):
            yield f"{'remove':<8}{path}"
        case RemoveFolder(path=path):
            yield f"{'remove':<8}{path}, where it is empty"
        case MakeLink(path=path, target=target):
            yield f"{'link':<8}{path} to {target}"
        case Call(argv=argv):
            yield f"{'run':<8}{shlex.join(argv)}"


def deed_object(deed: Deed) -> dict[str, Any]:
    match deed:
        case WriteFile(path=path, text=text):
            return {"act": "write", "path": str(path), "text": text}
        case RemoveFile(path=path) | RemoveFolder(path=path):
            return {"act": "remove", "path": str(path)}
        case MakeLink(path=path, target=target):
            return {"act": "link", "path": str(path), "target": target}
        case Call(argv=argv):
            return {"act": "run", "argv": list(argv)}
