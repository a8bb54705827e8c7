"""Every command at work, in a world whose text was written by somebody who means no good."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
from pathlib import Path

import apsw

from tests.support.program import PROGRAM

EVIL = "\x1b]52;c;aGk=\x07\x1b[2J\x9b31m\u202e\u2028\x7f" + "\u0301" * 9
_RESULT = r"""printf '%s' '"\u001b[2J\u009b31m\u202e"' > "$EDGECRON_RESULT" """
_PRINTS = r"printf 'a\033]52;c;aGk=\007\033[2J\302\2331m\2331m\342\200\256\rb\n\tc'"

# Each command with a command line that does something; `{crontab}` and `{schedules}` are files of
# the world. A new command gets one too, so that the tests of all commands cover it.
ACTS: dict[str, tuple[str, ...]] = {
    "add": ("add", "more", "--every", "1h", "--description", "Grüße 日本", "--", "true"),
    "edit": ("edit", "evil", "--timeout", "5m"),
    "rm": ("rm", "evil"),
    "undo": ("undo", "gone"),
    "list": ("list",),
    "show": ("show", "evil"),
    "env": ("env", "show", "evil", "--reveal"),
    "pause": ("pause", "evil"),
    "resume": ("resume", "evil"),
    "reschedule": ("reschedule", "evil", "in 20m"),
    "apply": ("apply", "{schedules}"),
    "export": ("export",),
    "backup": ("backup", "{copy}", "--force"),
    "restore": ("restore", "{copy}", "--yes"),
    "migrate": ("migrate", "--to", "{new}"),
    "import": ("import", "crontab", "{crontab}"),
    "adopt": ("adopt", "--root", "{system}", "own-job"),
    "scan": ("scan", "--root", "{system}"),
    "next": ("next",),
    "simulate": ("simulate",),
    "run": ("run", "missing"),
    "backfill": ("backfill", "evil", "2021-03-01", "2021-03-02", "--dry-run"),
    "history": ("history",),
    "prune": ("prune", "--output-bytes", "1"),
    "logs": ("logs", "evil"),
    "why": ("why", "evil"),
    "cancel": ("cancel", "3"),
    "status": ("status",),
    "engine": ("engine", "list"),
    # Its file can't hold the letters of this world's database.
    "service": (
        *("service", "print", "--program", "/usr/bin/edgecron", "--db", "/srv/e.db"),
        *("--config", "none"),
    ),
    "notices": ("notices",),
    "notify": ("notify", "list"),
    "stats": ("stats",),
    "metrics": ("metrics",),
    "doctor": ("doctor",),
    "self": ("self",),
    "completion": ("completion", "bash"),
    "config": ("config", "show"),
    "check": ("check", "30 2 * * *"),
}
# They go on until they are told to end, and have tests of their own.
LASTING = {"daemon", "demo", "mcp", "tui"}


class World:
    """A database with runs, one of them queued, beside a crontab; all in one folder."""

    def __init__(self, folder: Path) -> None:
        # The path is shown as well, and is somebody's word.
        self.folder = folder / "w\x1b[2J\u202e"
        self.database = self.folder / "edgecron.db"
        self.schedules = self.folder / "schedules\x1b]0;tab\x07.toml"
        self.copy = self.folder / "copy\x1b[2J.db"
        self.crontab = self.folder / "cron\x1b]0;tab\x07"
        self.config = self.folder / "config.toml"
        self.system = self.folder / "system\x1b[2J"

    def copy_to(self, folder: Path) -> World:
        """A world just like this one, for an act of its own."""
        world = World(folder)
        shutil.copytree(self.folder, world.folder)
        return world

    def words(self, command: str) -> tuple[str, ...]:
        """The act of a command in this world."""
        files = {
            "{crontab}": str(self.crontab),
            "{schedules}": str(self.schedules),
            "{copy}": str(self.copy),
            "{new}": str(self.folder / f"new-{secrets.token_hex(4)}.db"),
            "{system}": str(self.system),
        }
        return tuple(files.get(word, word) for word in ACTS[command])

    def build(self, environment: dict[str, str]) -> None:
        """Make it: three schedules; a run that printed, one that failed, and one queued."""
        self.folder.mkdir(mode=0o700)
        self.crontab.write_text(f"0 5 * * * echo {EVIL[:20]} # {EVIL[:20]}\n", encoding="utf-8")
        spool = self.system / "var/spool/cron/crontabs"
        spool.mkdir(parents=True)
        shutil.copy(self.crontab, spool / "evil\x1b[2J\u202e")
        # Only root can adopt what runs as somebody else.
        own = spool / pwd.getpwuid(os.getuid()).pw_name
        own.write_text(f"0 5 * * * own-job {EVIL[:20]}\n", encoding="utf-8")
        text = EVIL.encode("unicode_escape").decode().replace("\\x", "\\u00")
        self.schedules.write_text(
            f'[schedules.plain]\ncron = "0 3 * * *"\nshell = "echo {text}"\n'
            f'env.X = "{text}"\n[schedules.late]\nevery = "1h"\ncommand = ["true", "{text}"]\n',
            encoding="utf-8",
        )
        self.config.write_text(
            '[notify.ops]\ncommand = ["true"]\nevents = ["failed"]\n', encoding="utf-8"
        )
        self.config.chmod(0o600)
        evil = (
            "--description",
            f"a{EVIL[-9:]}\u3164",
            "--env",
            f"X={EVIL}",
            "--stdin",
            EVIL,
            "--shell",
            f"{_RESULT}; {_PRINTS}",
        )
        for words in (
            ("add", "evil", "--every", "1h", *evil),
            ("add", "missing", "--every", "2h", "--", f"/no/{EVIL}"),
            ("add", "plain", "--cron", "0 3 * * *", "--", "true", EVIL),
            ("run", "evil", "--wait"),
            ("run", "missing", "--wait"),
            ("run", "plain"),
            ("add", "gone", "--every", "1h", *evil),
            ("rm", "gone"),
            ("backup", str(self.copy)),
        ):
            subprocess.run([*PROGRAM, *words], env=environment, capture_output=True, check=False)
        self._go_behind_every_check()

    def _go_behind_every_check(self) -> None:
        """Write what no command would have written, as whoever has the file can."""
        connection = apsw.Connection(str(self.database))
        connection.execute("UPDATE schedules SET last_error = ?", (EVIL,))
        connection.execute(
            """INSERT INTO notices (rule, event, at, schedule_id, detail, status, due_at, error)
               VALUES (?1, 'failed', 0, 1, json_object('sentence', ?1), 'waiting', 0, ?1)""",
            (EVIL,),
        )
        connection.close()
