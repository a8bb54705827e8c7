"""What words ask of the dashboard."""

from __future__ import annotations

from edgecron.base.values import NamedTuple
from edgecron.client.face import Face


class Front(NamedTuple):
    """The dashboard, as words know it, on the desk of an open database."""

    opened: Face

    def client(self) -> Face:
        """The open database."""
        return self.opened

    def command(self, words: str) -> str:
        """A command line of ours."""
        return f"edgecron {words}"
