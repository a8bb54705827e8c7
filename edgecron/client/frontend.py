"""What words ask of the program that shows them: the command line, or the dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from edgecron.client.protocol import Client


class FrontEnd(Protocol):
    """Where the database is, and how a person gets at it."""

    def client(self) -> Client:
        """The open database."""

    def command(self, words: str) -> str:
        """A command line of ours for a person to copy, with this database."""
