"""What a verb is given: the database, and where its output goes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from edgecron.api import Scheduler
    from edgecron.errors import EdgecronError


class Session:
    """One run of the command line. `is_json` and `color` hold from the first option read on."""

    def __init__(self) -> None:
        self.database: str | None = None
        self.is_json = False
        self.color = "auto"
        self._scheduler: Scheduler | None = None

    def scheduler(self, *, must_exist: bool = False) -> Scheduler:
        """The database that --db or EDGECRON_DB names, else this user's own."""
        if self._scheduler is None:
            from edgecron.api import Scheduler

            self._scheduler = Scheduler(self.database, must_exist=must_exist)
        return self._scheduler

    def close(self) -> None:
        if self._scheduler is not None:
            self._scheduler.close()

    def use_color(self, stream: TextIO) -> bool:
        """Whether to colour what goes to a stream: --color, then NO_COLOR, then the terminal."""
        if self.color != "auto":
            return self.color == "always"
        if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
            return False
        return stream.isatty()

    def put(self, text: str = "") -> None:
        """Data, on stdout. The text is safe for a terminal: see `screen.clean`."""
        print(text)

    def put_json(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """An array of objects on stdout, `[]` when empty."""
        print(json.dumps(list(objects), ensure_ascii=False, indent=2))

    def say(self, text: str) -> None:
        """Words for a person, on stderr."""
        print(text, file=sys.stderr)

    def show_error(self, error: EdgecronError) -> None:
        """One clear line on stderr, or the error as JSON."""
        from edgecron.cli.screen import clean

        if self.is_json:
            body = {"code": error.code, "message": error.message, "hint": error.hint}
            print(json.dumps({"error": body}, ensure_ascii=False), file=sys.stderr)
            return
        hint = f" ({error.hint})" if error.hint else ""
        print(f"edgecron: {clean(error.message + hint)}", file=sys.stderr)
