"""What a verb is given: the database, and where its output goes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from datetime import tzinfo
    from pathlib import Path

    from edgecron.base.errors import EdgecronError
    from edgecron.client import Client as LocalClient
    from edgecron.client.protocol import Client
    from edgecron.formats.config import Config
    from edgecron.model.schedule import Schedule


_MOST_INDENTED = 200  # objects that a person may read


class Session:
    """One run of the command line. `is_json` holds from the first option read on.

    `database`, `url`, `token_file`, `color` and `config_path` are what the options of these names
    were given; `verb` is what is done.

    `error_exit`, where it is set, is the exit code of every error of our own. With `is_patient`,
    set before the first `client()`, a server elsewhere that ends is waited for until it is back,
    or until that is no longer set.
    """

    def __init__(self) -> None:
        self.verb = ""
        self.database: str | None = None
        self.url: str | None = None
        self.token_file: str | None = None
        self.is_json = False
        self.color: str | None = None
        self.config_path: str | None = None
        self.error_exit: int | None = None
        self.is_patient = False
        self._config: Config | None = None
        self._client: Client | None = None
        self._zone: tzinfo | None = None
        self._is_new = False  # The database is not there yet: this command may create it.
        for stream in (sys.stdout, sys.stderr):
            # A locale that can't show a letter shows its code, and is no reason to fail.
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")

    def config(self) -> Config:
        """What flags, variables and files say. Raises InvalidInput where one of them is wrong."""
        if self._config is None:
            from edgecron.formats.config import load

            flags = {
                "database": self.database,
                "url": self.url,
                "token_file": self.token_file,
                "color": self.color,
            }
            given = {key: text for key, text in flags.items() if text is not None}
            self._config = load(self.config_path, flags=given)
        return self._config

    def setting(self, key: str, *, flag: str | None = None) -> Any:
        """The value of a setting; `flag` is what a verb's own option was given.

        Raises InvalidInput for a flag or variable that can't be read.
        """
        return self.config().get(key, flag=flag)

    def remote_url(self) -> str | None:
        """The server of another machine that is asked; None where a file of this one is.

        Raises UsageError where both are named.
        """
        if self.config().find("url") is None:
            return None
        from edgecron.cli.elsewhere import find_url

        return find_url(self.config())

    def database_path(self) -> Path:
        """The database file that --db, EDGECRON_DB or a file names, else this user's own.

        Raises NotSupported where the database is another machine's.
        """
        url = self.remote_url()
        if url is not None:
            from edgecron.cli.elsewhere import refuse_here

            raise refuse_here(self.verb, url)
        return self.own_database_path()

    def own_database_path(self) -> Path:
        """The same, also where another machine's is asked."""
        from edgecron.base.paths import database_path

        given = self.config().find("database")
        return database_path(None if given is None else str(given.text))

    def client(self, *, must_exist: bool = False) -> Client:
        """The database that --url, --db, a variable or a file names, else this user's own.

        With `must_exist`, raises NotFound if there is no such file; without, it is created at its
        first use, unless its folder is missing: see `check_folder`.
        """
        if not self.has_database():
            if must_exist:
                raise self._no_database()
            self.check_folder()
            self._is_new = True
        if self._client is None:
            self._client = self.opener()(must_exist)
            if self.remote_url() is None:
                from edgecron.store.writer_queue import tell_long_waits

                tell_long_waits(
                    lambda path: self.say_of_us(f"waiting for another program's lock on {path}")
                )
        return self._client

    def opener(self, *, busy_wait_s: float | None = None) -> Callable[[bool], Client]:
        """What makes clients of that database, each for a thread of its own; told whether it must
        be there. `busy_wait_s` is how long a lock is waited for, None as long as usual."""
        url = self.remote_url()
        if url is not None:
            from edgecron.cli.elsewhere import opener

            opened = opener(
                self.config(),
                url,
                warn=self.caution,
                tell=self.say_of_us,
                is_patient=(lambda: self.is_patient) if self.is_patient else None,
            )
            return lambda must_exist: opened()
        from contextlib import suppress

        from edgecron.base.errors import EdgecronError
        from edgecron.base.paths import is_there
        from edgecron.client import Client as LocalClient
        from edgecron.client.opening import BUSY_WAIT_S
        from edgecron.triggers.zones import use_zone_of_engines

        path, wait_s = self.database_path(), BUSY_WAIT_S if busy_wait_s is None else busy_wait_s

        def open_here(must_exist: bool) -> Client:
            if not must_exist:
                self.check_folder()
            client = LocalClient(path, must_exist=must_exist, busy_wait_s=wait_s)
            if is_there(path):  # To ask a new database would make it.
                with suppress(EdgecronError):  # The command itself says what is wrong with it.
                    use_zone_of_engines(client.local_zone())
            return client

        return open_here

    def local_client(self, *, must_exist: bool = False) -> LocalClient:
        """The same of this machine. Raises NotSupported where it is another machine's."""
        self.database_path()
        client = self.client(must_exist=must_exist)
        from edgecron.client import Client as LocalClient

        assert isinstance(client, LocalClient)
        return client

    def find_client(self) -> Client | None:
        """The same for commands that only read; None at the first use, before the first `add`.

        Raises NotFound if the missing file was named: by --db, a variable or a file.
        """
        if not self.has_database() and self.config().find("database") is None:
            return None
        client = self.client(must_exist=True)
        if self.remote_url() is None:
            from contextlib import suppress

            from edgecron.base.errors import EdgecronError

            # A run whose engine and supervisor are gone has ended: every command says so. If that
            # can't be written now, the command shows what is on record, or its own error.
            with suppress(EdgecronError):
                client.take_over()
        return client

    def has_database(self) -> bool:
        """Whether the database is there; a server of another machine counts as one."""
        from edgecron.base.paths import is_there

        return self.remote_url() is not None or is_there(self.database_path())

    def _no_database(self) -> EdgecronError:
        from edgecron.base.errors import NotFound

        path, given = self.database_path(), self.config().find("database")
        if given is None:
            return NotFound(f"database {path} does not exist", hint="edgecron add makes it")
        return NotFound(
            f"database {path} does not exist (named by {given.origin})",
            hint=f"check the path; to make it: edgecron --db {path} add",
        )

    def check_folder(self) -> None:
        """Raise NotFound if the database was named and its folder does not exist.

        A mistyped path must not become a new database: only the default folder is created.
        """
        from edgecron.base.paths import database_path, is_there

        path, given = self.database_path(), self.config().find("database")
        if given is None or path == database_path() or is_there(path.parent):
            return
        from shlex import quote

        from edgecron.base.errors import NotFound

        raise NotFound(
            f"database {path} can't be created: its folder does not exist"
            f" (named by {given.origin})",
            hint=f"check the path; to create the folder: mkdir -p {quote(str(path.parent))}",
        )

    def close(self) -> None:
        """Close the database; the next `client()` opens it anew."""
        if self._client is not None:
            from edgecron.triggers.zones import use_zone_of_engines

            self._client.close()
            self._client = None
            use_zone_of_engines(None)
            if self._is_new and self.has_database():
                self._is_new = False
                self.say(f"created database {self.database_path()}")

    def zone(self) -> tzinfo:
        """The zone of the times on screens: the machine's own."""
        if self._zone is None:
            from datetime import UTC

            from edgecron.base.errors import UnknownTimezone
            from edgecron.triggers import load_zone, local_zone_name

            try:
                # Of most servers; `zoneinfo` need not be loaded for it.
                is_utc = local_zone_name() in ("UTC", "Etc/UTC")
                self._zone = UTC if is_utc else load_zone("local")
            except UnknownTimezone as error:
                self.warn(f"{error.message}; times are shown in UTC")
                self._zone = UTC
        return self._zone

    def use_color(self, stream: TextIO) -> bool:
        """Whether to colour what goes to a stream: as it is set, else NO_COLOR, the terminal."""
        # As no-color.org has it: what is set for this program comes before what is for all.
        color = "auto" if self.config().find("color") is None else self.setting("color")
        if color != "auto":
            return bool(color == "always")
        if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
            return False
        return stream.isatty()

    def put(self, text: str = "") -> None:
        """Data, on stdout: lines, coloured by `screen.paint` or not at all, cleaned here."""
        if not (text.isascii() and text.isprintable()):
            from edgecron.base.safetext import clean
            from edgecron.cli.screen import clean_painted

            is_colored = self.use_color(sys.stdout)
            text = clean_painted(text) if is_colored else clean(text, keep="\n")
        self._print(text)

    def put_json(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """An array of objects on stdout, `[]` when empty; of many, one object to a line."""
        listed = list(objects)
        if len(listed) <= _MOST_INDENTED:
            self._print(_json_text(listed, sys.stdout, indent=2))
            return
        # Indenting takes seven times as long, and nobody reads so many without a program.
        lines = [_json_text(each, sys.stdout) for each in listed]
        self._print("[\n" + ",\n".join(lines) + "\n]")

    def flush(self) -> None:
        """Hand on what stdout holds back. Raises BrokenPipeError, or EdgecronError."""
        try:
            sys.stdout.flush()
        except OSError as error:
            from edgecron.cli.streams import raise_lost

            raise_lost(error)

    def _print(self, text: str) -> None:
        try:
            print(text)
        except OSError as error:
            from edgecron.cli.streams import raise_lost

            raise_lost(error)

    def say(self, text: str) -> None:
        """Words for a person, on stderr, cleaned here."""
        from edgecron.base.safetext import clean
        from edgecron.cli.streams import tell

        tell(clean(text, keep="\n"))

    def say_of_us(self, text: str) -> None:
        """The same of what becomes of us, beside what others print."""
        self.say(f"edgecron: {text}")

    def is_advised(self) -> bool:
        """Whether a person is there to be told what can be done next; scripts are spared it."""
        return sys.stderr.isatty() and not self.is_json

    def ask(self, question: str) -> bool:
        """Whether a person at the terminal says yes."""
        from edgecron.base.safetext import clean
        from edgecron.cli.streams import tell

        try:
            tell(clean(question), end="")
            return sys.stdin.readline().strip().lower() in ("y", "yes")
        except KeyboardInterrupt:
            tell("")  # What the shell says next begins a line.
            raise

    def warn(self, text: str) -> None:
        """A warning for a person, on stderr: one line, wrapped on a terminal."""
        line = f"edgecron: warning: {text}"
        if sys.stderr.isatty():
            from edgecron.cli.screen import wrapped

            line = wrapped(line)
        self.say(line)

    def caution(self, text: str) -> None:
        """A warning of what is done on purpose: for a person at the terminal, and no script."""
        if self.is_advised():
            self.warn(text)

    def show_error(self, error: EdgecronError) -> None:
        """One clear line on stderr, or the error as JSON."""
        if self.is_json:
            body = {"code": error.code, "message": error.message, "hint": error.hint}
            body |= error.details
            from edgecron.cli.streams import tell

            self._is_new = False  # A program reads nothing but the error there.
            tell(_json_text({"error": body}, sys.stderr))
            return
        hint = f" ({error.hint})" if error.hint else ""
        if error.message.endswith(")"):
            hint = f"; {error.hint}" if error.hint else ""
        self.say(f"edgecron: {error.message}{hint}".replace("\n", " "))

    def command(self, words: str) -> str:
        """A command line of ours for a person to copy, with this database.

        An engine runs as the owner of its database: root is told so.
        """
        url = self.remote_url()
        if url is not None:
            from edgecron.cli.elsewhere import LOCAL_VERBS

            if words.partition(" ")[0] in LOCAL_VERBS:
                return f"edgecron {words}, on the machine of {url}"
        owner = self._other_owner() if words == "daemon" else None
        database = self.database if owner is None else str(self.database_path())
        sudo = "" if owner is None else f"sudo -u {owner} "
        given = self.given(database)
        if not given:
            return f"edgecron {words}"
        from shlex import join

        return f"{sudo}edgecron {join(given)} {words}"

    def given(self, database: str | None) -> list[str]:
        """The options that name configuration and database, as another command line has them."""
        named = (
            ("--config", self.config_path),
            ("--db", database),
            ("--url", self.url),
            ("--token-file", self.token_file),
        )
        return [word for name, text in named if text for word in (name, text)]

    def _other_owner(self) -> str | None:
        """The user whose database it is, for root alone; None where it is root's, or not there."""
        if os.geteuid() != 0:
            return None
        try:
            uid = self.database_path().lstat().st_uid
        except OSError:
            return None
        if uid == 0:
            return None
        import pwd

        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            return f"'#{uid}'"

    def warn_without_engine(self, client: Client, schedule: Schedule | None = None) -> None:
        """Say that nothing will fire, and what to do, where no engine is alive and at work for a
        schedule; None is a command."""
        from edgecron.client.engine_words import absence_advice, find_living, stalled_words

        states = find_living(client, schedule)
        if not states and schedule is not None and schedule.spec.queue != "command":
            self.warn(absence_advice(self, schedule, zone=self.zone(), now=client.now()))
        elif not states:
            self.warn(
                "no engine is running, so nothing will be run yet;"
                f" start one: {self.command('daemon')}"
            )
        elif all(state.is_stalled for state in states):
            self.warn(
                f"{stalled_words(states)}; nothing will be run yet; see: {self.command('doctor')}"
            )


def _json_text(value: object, stream: TextIO, *, indent: int | None = None) -> str:
    """JSON in the letters that a stream has, and of these only what a terminal can be sent."""
    from edgecron.base.safetext import clean_json

    is_ascii = not _is_utf8(stream)
    return clean_json(json.dumps(value, ensure_ascii=is_ascii, indent=indent))


def _is_utf8(stream: TextIO) -> bool:
    return (stream.encoding or "").lower().replace("-", "") == "utf8"
