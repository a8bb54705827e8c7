"""The session of a command: its settings, and its database, here or behind a server (--url)."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Callable
from contextlib import nullcontext, suppress
from datetime import datetime
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Any

from edgecron.base.clock import ServerTime, SystemClock, now
from edgecron.base.errors import EdgecronError, NotFound, NotSupported, UsageError
from edgecron.base.files import read_token
from edgecron.base.paths import (
    Location,
    ServerUrl,
    folder_hint,
    is_empty_file,
    is_there,
    read_location,
    refuse_missing_folder,
    shown_location,
)
from edgecron.base.zones import use_zone_of_engines
from edgecron.cli.commands import COMMANDS, LOCAL_COMMANDS, READING, WITHOUT_DATABASE
from edgecron.cli.output import Output
from edgecron.formats.config import Config, load
from edgecron.model.choices import COMMAND_QUEUE
from edgecron.views.phrases import next_sentence

if TYPE_CHECKING:
    from edgecron.client import Client as LocalClient
    from edgecron.client.protocol import Client
    from edgecron.client.questions import Reader
    from edgecron.client.remote_connection import Connector
    from edgecron.client.schedules import Schedules as LocalReader
    from edgecron.model.schedule import Schedule


FIRST_SCHEDULE = 'add nightly --cron "0 2 * * *" -- tar czf /backup/home.tgz /home/me'
_SERVING = ("daemon", "service", "tui")  # --token-file is of their own server
OWN_ERROR = 125  # of `run --wait`: every other exit code is the job's


class Session(Output):
    """One run of the command line: global options, settings and database.

    `database`, `url`, `token_file`, `color` and `config_path` are the values of these options;
    `command_name` is the command that runs; `origin` says in the record of changes from where they
    come.

    If `error_exit` is set, it is the exit code of every error of edgecron. If `waits_for_server` is
    set before the first `client()`, the client waits for a lost server as long as it stays set.
    """

    def __init__(self) -> None:
        super().__init__()
        self.command_name = ""
        self.origin = "cli"
        self.database: str | None = None
        self.url: str | None = None
        self.token_file: str | None = None
        self.config_path: str | None = None
        self.error_exit: int | None = None
        self.waits_for_server = False
        self._config: Config | None = None
        self._client: Client | None = None
        self._reader: LocalReader | None = None
        self._is_new = False  # The database does not exist yet: this command may create it.

    def config(self) -> Config:
        """Return the settings of flags, variables and files. Raises InvalidInput."""
        if self._config is None:
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
        """Return the value of a setting; `flag` is the value of the command's own option.

        Raises InvalidInput for a flag or variable that can't be read.
        """
        return self.config().get(key, flag=flag)

    def remote_url(self) -> str | None:
        """Return the URL of the server of another machine; None for a file of this machine.

        Raises UsageError if both are named, or a token file without a server.
        """
        url = _find_url(self.config())
        if url is None and self.token_file is not None and self.command_name not in _SERVING:
            raise UsageError(
                "--token-file is given without --url",
                hint="name the server, for example: --url http://pi:8745; or remove --token-file",
            )
        return url

    def location(self) -> Location:
        """Return the database that --db, EDGECRON_DB or a file names, else the user's own.

        Raises NotSupported if --url names another machine.
        """
        url = self.remote_url()
        if url is not None:
            raise refuse_here(self.command_name, url)
        return self.own_location()

    def own_location(self) -> Location:
        """Return the database that engines of this machine use, even if --url names a server."""
        given = self.config().find("database")
        return read_location(None if given is None else str(given.text))

    def client(self, *, must_exist: bool = False) -> Client:
        """Open the database that --url, --db, a variable or a file names, else the user's own.

        With `must_exist`, raises NotFound if the file does not exist. Otherwise the first use
        creates it, unless its folder is missing: see `check_folder`.
        """
        if not self.has_database():
            if must_exist:
                raise self._no_database()
            self.check_folder()
            self._is_new = True
        if self._client is None:
            self._client = self.opener()(must_exist)
            if self.remote_url() is None:
                self._tell_long_waits()
        return self._client

    def now(self) -> datetime:
        """The time from which relative times count; on a server, the clock of the server."""
        if self.remote_url() is None and isinstance(self.location(), ServerUrl):
            return self.client().now()
        return now(SystemClock())

    def _tell_long_waits(self) -> None:
        from edgecron.store.sqlite.connection import tell_long_waits

        tell_long_waits(
            lambda path: self.say_of_us(f"waiting for another program's lock on {path}")
        )

    def opener(
        self, *, busy_wait_s: float | None = None, cache_kib: int | None = None
    ) -> Callable[[bool], Client]:
        """Return a function that opens clients; its argument says whether the database must exist.

        Each thread needs a client of its own. `busy_wait_s` bounds the wait for a lock, `cache_kib`
        the pages of a file in memory.
        """
        url = self.remote_url()
        if url is not None:
            from edgecron.client.remote import RemoteClient  # http.client takes 20 ms
            from edgecron.client.remote_link import ServerWait

            connector = connector_to(self.config(), url, warn=self.caution)
            if self.waits_for_server:
                wait = ServerWait(self.say_of_us, is_on=lambda: self.waits_for_server)
                connector = connector._replace(wait=wait)
            time = ServerTime(SystemClock())  # All clients share its clock offset.
            return lambda must_exist: RemoteClient(connector, time=time)
        from edgecron.client.opening import BUSY_WAIT_S

        location, wait_s = self.location(), BUSY_WAIT_S if busy_wait_s is None else busy_wait_s

        def open_here(must_exist: bool) -> Client:
            from edgecron.client import Client as LocalClient

            if not must_exist:
                self.check_folder()
            client = LocalClient(
                location,
                must_exist=must_exist,
                busy_wait_s=wait_s,
                reads_if_full=self._reads_if_full(),
                origin=self.origin,
            )
            if self.has_database():
                with suppress(EdgecronError):  # The command itself reports the error.
                    use_zone_of_engines(client.known_zone())
                    if cache_kib is not None:
                        client.store.keep_pages(cache_kib)
            return client

        return open_here

    def _reads_if_full(self) -> bool:
        """Whether the command only reads, and soon closes the database."""
        return self.command_name in READING and not self.waits_for_server

    def local_client(self, *, must_exist: bool = False) -> LocalClient:
        """Open the database of this machine. Raises NotSupported if --url names a server."""
        self.location()
        client = self.client(must_exist=must_exist)
        from edgecron.client import Client as LocalClient

        assert isinstance(client, LocalClient)
        return client

    def reading_client(self) -> Client:
        """Open the database for a command that only reads. Raises NotFound if it is missing."""
        client = self.client(must_exist=True)
        if self.remote_url() is None:
            # Record the end of runs whose engine and supervisor are gone: they must not look
            # active. If that can't be written now, the command shows what is recorded, or its own
            # error. A server that can't be reached is asked only once: that can take long.
            with (
                nullcontext() if isinstance(self.location(), ServerUrl) else suppress(EdgecronError)
            ):
                client.take_over()
        return client

    def find_reader(self) -> Reader | None:
        """Open the database as `reader` does; None on a first use.

        On a first use, the user's own database does not exist, and no other one was named.
        """
        is_named = self.config().find("database") is not None
        return self.reader() if is_named or self.has_database() else None

    def reader(self) -> Reader:
        """Open the database for a command that only reads schedules; see `reading_client`.

        While no run is active, it loads no code that writes: a third of the time of `list`.
        """
        is_file = self.remote_url() is None and isinstance(self.location(), Path)
        if is_file and self.has_database():
            from edgecron.client.schedules import Schedules as LocalReader

            self._reader = LocalReader(
                self.location(), must_exist=True, reads_if_full=self._reads_if_full()
            )
            self._tell_long_waits()
            # An active run might have an end to record, and `reading_client` reports each error.
            with suppress(EdgecronError):
                if not any(self._reader.active_counts().values()):
                    use_zone_of_engines(self._reader.local_zone())
                    return self._reader
            self.close()  # On a full disk, it would keep the other connection out.
        return self.reading_client()

    def has_database(self) -> bool:
        """Return whether the database exists; one of a server is looked at when it is opened.

        An empty file is not a database: a command that only reads leaves it as it is.
        """
        if self.remote_url() is not None:
            return True
        path = self.location()
        if isinstance(path, ServerUrl):
            return True
        return is_there(path) and not is_empty_file(path)

    def _no_database(self) -> EdgecronError:
        path, given = self.location(), self.config().find("database")
        assert isinstance(path, Path)  # A server raises its own error.
        what = "is an empty file" if is_there(path) else "does not exist"
        origin = "the default path" if given is None else f"named by {given.origin}"
        if given is not None and not is_there(path.parent):
            return NotFound(
                f"database {path} does not exist, nor does its folder ({origin})",
                hint=folder_hint(path),
            )
        check = "" if given is None else "check the path, or "
        return NotFound(
            f"database {path} {what} ({origin})",
            hint=f"{check}add a first schedule: {self.command(FIRST_SCHEDULE)}",
        )

    def check_folder(self) -> None:
        """Raise NotFound if the database was named and its folder does not exist."""
        given, path = self.config().find("database"), self.location()
        if given is not None and isinstance(path, Path):
            refuse_missing_folder(path, origin=f" (named by {given.origin})")

    def close(self) -> None:
        """Close the database; the next `client()` opens it again."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
            use_zone_of_engines(None)
        if self._client is not None:
            self._is_new |= self._has_made_tables()
            self._client.close()
            self._client = None
            use_zone_of_engines(None)
            self._tell_new()

    def _has_made_tables(self) -> bool:
        """Return whether this command has made a database of a server one of edgecron."""
        if self.remote_url() is not None or not isinstance(self.location(), ServerUrl):
            return False
        return self.local_client().is_new

    def _tell_new(self) -> None:
        if self._is_new and self.has_database():
            self._is_new = False
            self.say(f"created database {self.location()}")

    def color_setting(self) -> str:
        """Return when to use colours: auto, always or never."""
        return "auto" if self.config().find("color") is None else str(self.setting("color"))

    def show_error(self, error: EdgecronError) -> None:
        """Print an error on stderr, with its hint on a line of its own, or as JSON."""
        if self.is_json:
            self._is_new = False  # The error must be the only JSON on stderr.
        self._tell_new()
        super().show_error(error)

    def say_dry_run(self) -> None:
        """Say that a dry run ends and has written nothing."""
        self.say("nothing is written: this was a dry run")

    def next_sentence(self, schedule: Schedule) -> str:
        """Return when a schedule runs next, or why it does not."""
        client = self._reader or self.client()
        return next_sentence(
            schedule,
            zone=self.zone(),
            now=client.now(),
            is_clock_trusted=client.is_clock_trusted(),
        )

    def command(self, words: str) -> str:
        """Return a command line for a person to copy, with the options of this database.

        An engine must run as the owner of its database, so root gets a `sudo -u`.
        """
        url = self.remote_url()
        if url is not None and words.partition(" ")[0] in LOCAL_COMMANDS:
            return f"edgecron {words}, on the machine of {url}"
        owner = self._other_owner() if words.partition(" ")[0] == "daemon" else None
        database = self._shown_database() if owner is None else str(self.location())
        sudo = "" if owner is None else f"sudo -u {owner} "
        given = self.given(database)
        if not given:
            return f"edgecron {words}"
        return f"{sudo}edgecron {join(given)} {words}"

    def complete_commands(self, hint: str) -> str:
        """Add the options of this database to the command lines of a hint that lack them."""
        here = WITHOUT_DATABASE | {"config"} | (LOCAL_COMMANDS if self.url is not None else set())
        given = join(self.given(self._shown_database()))

        def complete(found: re.Match[str]) -> str:
            is_ours = given and found[1] in COMMANDS and found[1] not in here
            return f"edgecron {given} {found[1]}" if is_ours else found[0]

        return re.sub(r"\bedgecron ([a-z]+)\b(?! --help)", complete, hint)

    def _shown_database(self) -> str | None:
        """Return the value of --db for a person to copy, without a password."""
        return None if self.database is None else shown_location(self.database)

    def given(self, database: str | None) -> list[str]:
        """Return the options that name configuration and database, for another command line."""
        named = (
            ("--config", self.config_path),
            ("--db", database),
            ("--url", self.url),
            ("--token-file", self.token_file),
        )
        return [word for name, text in named if text for word in (name, text)]

    def _other_owner(self) -> str | None:
        """Return another owner of the database; None unless root asks and there is one."""
        if os.geteuid() != 0:
            return None
        try:
            path = self.location()
            uid = 0 if isinstance(path, ServerUrl) else path.lstat().st_uid
        except OSError:
            return None
        if uid == 0:
            return None
        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            return f"'#{uid}'"

    def warn_without_engine(self, client: Client, *schedules: Schedule) -> None:
        """Warn if no engine is running for schedules, and say what to start.

        Without a schedule, warn as for one of commands that any machine runs.
        """
        from edgecron.client.sentences import (
            absence_advice,
            find_living,
            missing_advice,
            stalled_words,
        )

        said = []
        for schedule in {one.spec.placed_queue: one for one in schedules}.values() or (None,):
            states = find_living(client, schedule)
            if not states and schedule is not None:
                said.append(absence_advice(self, schedule, zone=self.zone(), now=client.now()))
            elif not states:
                said.append(missing_advice(self, COMMAND_QUEUE))
            elif all(state.is_stalled for state in states):
                said.append(f"{stalled_words(states)}; see: {self.command('doctor')}")
        for words in dict.fromkeys(said):
            self.warn(words)


def _find_url(config: Config) -> str | None:
    """Return the URL of the server; None if a database of this machine is meant.

    If both are named, a flag wins over a variable, and a variable over a file. Raises UsageError if
    both are named in the same way.
    """
    url, database = config.find("url"), config.find("database")
    if url is None:
        return None
    far, near = config.rank("url"), config.rank("database")
    if database is not None and near == far:
        raise UsageError(
            f"{database.what} and {url.what} are both given, expected one of them",
            hint="remove one of them",
        )
    return str(url.text) if database is None or far < near else None


def connector_to(config: Config, url: str, *, warn: Callable[[str], None]) -> Connector:
    """Return what connects to a server, with its token. Raises InvalidInput.

    `warn` is called if the token is sent unencrypted.
    """
    # http.client takes 20 ms.
    from edgecron.client.remote_connection import Connector
    from edgecron.client.remote_link import read_server

    given = config.find("url")
    server = read_server(url, what="--url" if given is None else given.what)
    token_file = config.find("token_file")
    if token_file is None:
        return Connector(server)

    token = read_token(str(token_file.text), is_for_client=True)
    if server.is_open:
        warn(
            f"the connection to {server.url} is not encrypted, so others can read the token;"
            " use https or a tunnel"
        )
    return Connector(server, token)


def refuse_here(command: str, url: str) -> NotSupported:
    """Return the error for a command that needs the machine of the database."""
    return NotSupported(
        f"{command} only works on the machine of the database, not through {url}",
        hint=f"run it there: edgecron {command}; or name a database of this machine: --db PATH",
    )
