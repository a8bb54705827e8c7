"""A copy of the live database, made by `cp`, and an engine on it."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time

from tests.chaos.engines import end_all
from tests.chaos.field import Field, pairs
from tests.chaos.history import Remark


class RunningCopy:
    """It may well refuse to run: what `cp` makes of a live database is no backup."""

    def __init__(self, field: Field, number: int, *, must_notice: bool) -> None:
        self._folder = field.folder / f"copy-{number}"
        self._folder.mkdir(mode=0o700)
        self._must_notice = must_notice
        self._out = field.logs / f"copy-{number}.log"
        self._began = time.monotonic()
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

    def end(self, *, others_are_well: bool) -> None:
        """End all of it. Whoever runs a copy beside engines that are well must have said so."""
        said = self._out.read_bytes()
        self.has_run = b'"engine_started"' in said
        self.was_noticed = b'"database_copied"' in said
        is_sure = self._must_notice and others_are_well and time.monotonic() - self._began > 3
        if self.has_run and is_sure and not self.was_noticed:
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
