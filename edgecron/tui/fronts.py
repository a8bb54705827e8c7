"""What words ask of the dashboard."""

from __future__ import annotations

from typing import NamedTuple

from edgecron.api import Client


class Front(NamedTuple):
    """The dashboard, as words know it, on the desk of an open database."""

    opened: Client

    def client(self) -> Client:
        """The open database."""
        return self.opened

    def command(self, words: str) -> str:
        """A command line of ours."""
        return f"edgecron {words}"
