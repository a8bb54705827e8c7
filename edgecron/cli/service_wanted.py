"""What is to be run by a service manager: for whom, under which name, as which command."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import PurePath

from edgecron.base.errors import InvalidInput
from edgecron.base.values import dataclass

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)


class Scope(StrEnum):
    USER = "user"  # of one person: from login on, or from boot on where they linger
    SYSTEM = "system"  # of the machine: from boot on, as root


class Manager(StrEnum):
    SYSTEMD = "systemd"
    LAUNCHD = "launchd"
    OPENRC = "openrc"
    PROCD = "procd"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One engine that is to run always. Raises InvalidInput for what can't be written in a file.

    `program` is what starts edgecron, its first word an absolute path. `name` tells several apart,
    '' for the only one; what is None is left to the configuration.
    """

    program: tuple[str, ...]
    scope: Scope
    name: str = ""
    database: str | None = None
    config: str | None = None
    http: str | None = None
    token_file: str | None = None

    def __post_init__(self) -> None:
        if self.name and not _NAME.fullmatch(self.name):
            raise InvalidInput(
                f"service name {self.name[:70]!a} is not usable, expected 1 to 64 of ASCII letters,"
                " digits, '_', '-', '.', starting with a letter or digit"
            )
        if not PurePath(self.program[0]).is_absolute():
            raise InvalidInput(
                f"program {self.program[0]!a} is no absolute path",
                hint="a service manager looks in no PATH: give the whole path",
            )
        for word in self.words():
            if not word.isprintable():
                raise InvalidInput(f"{word!a} holds a letter that no service file can hold")

    @property
    def id(self) -> str:
        """The name that the service manager knows it by."""
        return f"edgecron-{self.name}" if self.name else "edgecron"

    def words(self) -> tuple[str, ...]:
        """The command line."""
        words = list(self.program)
        for option, value in (("--config", self.config), ("--db", self.database)):
            words += [] if value is None else [option, value]
        words.append("daemon")
        for option, value in (("--http", self.http), ("--token-file", self.token_file)):
            words += [] if value is None else [option, value]
        return tuple(words)
