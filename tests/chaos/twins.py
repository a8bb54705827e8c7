"""A copy of the live database, made by `cp`, and an engine on it."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys

from tests.chaos.engines import end_all
from tests.chaos.field import Field, pairs
from tests.chaos.history import Remark


class RunningCopy:
    """It may well refuse to run: what `cp` makes of a live database is no backup."""

    def __init__(self, field: Field, number: int) -> None:
        self._folder = field.folder / f"copy-{number}"
        self._folder.mkdir(mode=0o700)
        self._out = field.logs / f"copy-{number}.log"
        files = [str(path) for path in sorted(field.place.glob("edge.db*")) if path.is_file()]
        # In a process of its own: to close the file here would drop our own locks on it.
        subprocess.run(["cp", *files, str(self._folder)], stderr=subprocess.DEVNULL, check=False)
        environment = field.environment(f"copy-{number}")
        environment["EDGECRON_DB"] = str(self._folder / "edge.db")
        with self._out.open("wb") as out, self._out.with_suffix(".err").open("wb") as err:
            self._engine = subprocess.Popen(
                [sys.executable, "-m", "edgecron", "daemon", "--log-format", "json"],
                env=environment,
                cwd=field.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self.remarks: list[Remark] = []
        self.has_run = self.was_noticed = False

    def end(self, *, is_beside: bool) -> None:
        """End all of it. It must have said so where an engine was beside it all the time."""
        said = self._out.read_bytes()
        self.has_run = b'"engine_started"' in said
        self.was_noticed = b'"database_copied"' in said
        if self.has_run and is_beside and not self.was_noticed:
            text = f"{self._out.name}: ran a copy beside engines, and did not say so"
            self.remarks.append(Remark(number="N30", text=text))
        self._engine.send_signal(signal.SIGKILL)
        self._engine.wait()
        self.remove()

    def remove(self) -> None:
        """End what runs for it, and let nothing stay."""
        # Their guardians end what they run.
        end_all([pair.supervisor for pair in pairs(self._folder)])
        shutil.rmtree(self._folder, ignore_errors=True)
