"""People at the real command line, meanwhile: what they asked for, and what they were promised."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw

from tests.chaos.crowd import ANCHOR, Member, words
from tests.chaos.field import Field, JobLog
from tests.chaos.history import Promise, Refusal, Remark
from tests.chaos.plan import Act

_BOUND_S = 120.0  # for a verb to answer, on a machine that is busy
_GRACE_S = 30.0  # after INT
_AT_ONCE = 4
_FINE = frozenset({0, 3, 4, 5})  # documented; whether there was a reason is judged afterwards
# It has ended already, or was left out; and doctor, where it finds something.
_MAY_FAIL = ("cancel", "run", "resume_now", "look")
_RUNNABLE = ("by-hand", "by-hand", "skips", "allows", "flaky", "again", "scoped", "disk-1")
_LOOKS = (
    *(("list",), ("history", "-n", "20"), ("status",), ("doctor",), ("next", "-n", "9")),
    *(("stats",), ("show", "skips"), ("why", "queues"), ("logs", "loud"), ("--json", "list")),
)


@dataclass(kw_only=True)
class _Command:
    kind: str
    arguments: tuple[str, ...]
    process: subprocess.Popen[bytes]
    out: Path
    began: float
    began_ms: int
    name: str = ""
    was_told: bool = False  # to end
    was_hurt: bool = False  # by a fault: it may say nothing any more

    @property
    def err(self) -> Path:
        return self.out.with_suffix(".err")


class People:
    def __init__(self, field: Field, jobs: JobLog) -> None:
        self._field = field
        self._jobs = jobs
        self._commands: list[_Command] = []
        self._number = 0
        self._guests: list[str] = []
        self.counts: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self.promises: list[Promise] = []
        self.refusals: list[Refusal] = []
        self.remarks: list[Remark] = []
        self.missed: Counter[str] = Counter()
        self.added: list[Promise] = []  # what was to be added, whatever became of it

    @property
    def is_busy(self) -> bool:
        return bool(self._commands)

    def act(self, act: Act, *, is_absent: bool) -> None:
        """Begin it. Where the database is not in its place they only look."""
        if len(self._commands) >= _AT_ONCE:
            self.missed[act.kind] += 1
            return
        kind = "look" if is_absent else act.kind
        name, arguments = self._wanted(kind, act.pick)
        if not arguments:
            self.missed[act.kind] += 1
            return
        self.counts[kind] += 1
        self.start(kind, arguments, name=name)

    def _wanted(self, kind: str, pick: float) -> tuple[str, tuple[str, ...]]:
        """The schedule it is about, and the words; none where there is nothing to do it to."""
        now = datetime.now(UTC)
        choice = int(pick * 1000)
        match kind:
            case "run" | "run_wait":
                name = _RUNNABLE[choice % len(_RUNNABLE)]
                return name, ("run", name, "--json", *(["--wait"] if kind == "run_wait" else []))
            case "pause":
                until = f"{now + timedelta(seconds=10 + choice % 9):%Y-%m-%dT%H:%M:%SZ}"
                return "paused", ("pause", "paused", *(["--until", until] if choice % 2 else []))
            case "resume" | "resume_now":
                return "paused", ("resume", "paused", *(["--now"] if kind == "resume_now" else []))
            case "cancel":
                runs = sorted({one["run"] for one in self._jobs.living()})
                return "", ("cancel", str(runs[choice % len(runs)])) if runs else ()
            case "edit_policy":
                changes = (
                    "--timeout 4s",
                    "--timeout none",
                    "--description changed",
                    "--max-late 1h",
                )
                return "edited", ("edit", "edited", *changes[choice % len(changes)].split())
            case "edit_times":
                times = f"{2 + choice % 5}s from {ANCHOR}"
                return "edited", ("edit", "edited", "--every", times)
            case "add":
                self._number += 1
                guest = Member(
                    name=f"guest-{self._number}",
                    when=("--every", f"{2 + choice % 3}s from {ANCHOR}"),
                )
                self._guests.append(guest.name)
                return guest.name, tuple(words(guest, self._field.log))
            case "rm":
                if not self._guests:
                    return "", ()
                name = self._guests.pop(choice % len(self._guests))
                return name, ("rm", name)
            case "backfill":
                since = f"{now - timedelta(seconds=30):%Y-%m-%dT%H:%M:%SZ}"
                until = f"{now:%Y-%m-%dT%H:%M:%SZ}"
                return "filled", ("backfill", "filled", since, until, "--yes")
            case "prune":
                return "pruned", ("prune", "pruned", "--history-count", "20")
            case "backup":
                self._number += 1
                target = self._field.folder / f"backup-{self._number}.db"
                return str(target), ("backup", str(target))
        return "", _LOOKS[choice % len(_LOOKS)]

    def start(self, kind: str, arguments: Sequence[str], *, name: str = "") -> None:
        self._number += 1
        out = self._field.logs / f"act-{self._number}-{kind}.out"
        with out.open("wb") as stdout, out.with_suffix(".err").open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "edgecron", *arguments],
                env=self._field.environment("person"),
                cwd=self._field.folder,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        self._commands.append(
            _Command(
                kind=kind,
                arguments=tuple(arguments),
                process=process,
                out=out,
                began=time.monotonic(),
                began_ms=time.time_ns() // 1_000_000,
                name=name,
            )
        )

    def tick(self) -> None:
        """Take note of what has ended, and end what does not."""
        for command in list(self._commands):
            if command.process.poll() is not None:
                self._commands.remove(command)
                self._note_end(command)
            elif time.monotonic() > command.began + _BOUND_S and not command.was_told:
                if command.kind != "run_wait":  # It may well wait for what goes on.
                    self._remark(command, f"has not answered within {_BOUND_S:.0f} s")
                command.was_told = True
                command.process.send_signal(signal.SIGINT)
            elif time.monotonic() > command.began + _BOUND_S + _GRACE_S:
                self._remark(command, f"has not ended {_GRACE_S:.0f} s after INT")
                command.process.kill()

    def hurt(self, pick: float) -> int | None:
        """The process of one who waits for an answer, to whom something is about to happen."""
        if not self._commands:
            return None
        command = self._commands[int(pick * len(self._commands))]
        command.was_hurt = True
        return command.process.pid

    def finish(self) -> None:
        """Let nobody wait any longer."""
        for command in self._commands:
            command.began = min(command.began, time.monotonic() - _BOUND_S + 10)

    def end(self) -> None:
        """End whoever is left."""
        for command in self._commands:
            command.process.kill()
            command.process.wait()

    def _note_end(self, command: _Command) -> None:
        code = command.process.returncode
        self.codes[f"{command.kind} {code}"] += 1
        err = command.err.read_text(errors="replace")
        is_own = command.kind == "run_wait" and 0 <= code <= 255
        is_own |= code == 1 and command.kind in _MAY_FAIL
        is_ended = command.was_told or command.was_hurt
        if "Traceback" in err or (code not in _FINE and not is_own and not is_ended):
            self._remark(command, f"ended with {code}, and said: {err[-2000:]}")
        if command.kind == "add":
            self.added.append(_promise(command))
        if code == 0:
            self._note_promise(command)
        elif code in _FINE and not is_own and not is_ended:
            said = f"edgecron {' '.join(command.arguments[:6])}: {err[-500:]}"
            self.refusals.append(Refusal(asked=_promise(command), code=code, words=said))
        if not err and command.out.stat().st_size < 10_000:
            with suppress(OSError):
                command.err.unlink()

    def _note_promise(self, command: _Command) -> None:
        runs: tuple[int, ...] = ()
        if command.kind == "run":
            runs = tuple(row["id"] for row in json.loads(command.out.read_text()))
        if command.kind == "backup":
            self._check_backup(command)
        self.promises.append(replace(_promise(command), runs=runs))

    def _check_backup(self, command: _Command) -> None:
        """N55: a backup of a live database is whole."""
        target = Path(command.name)
        connection = apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READONLY)
        found = connection.execute("PRAGMA integrity_check").fetchall()
        connection.close()
        if found != [("ok",)]:
            self._remark(command, f"made a backup that is not whole: {found}")
        for path in target.parent.glob(f"{target.name}*"):
            path.unlink()

    def _remark(self, command: _Command, text: str) -> None:
        words_ = f"edgecron {' '.join(command.arguments[:6])}: {text}"
        self.remarks.append(Remark(number="VERB", text=words_))


def _promise(command: _Command) -> Promise:
    return Promise(
        kind=command.kind,
        began_ms=command.began_ms,
        at_ms=time.time_ns() // 1_000_000,
        name=command.name,
    )
