"""A line to write in, into which nothing gets that a terminal would obey."""

from __future__ import annotations

from textual import events
from textual.widgets import Input

from edgecron.base.safetext import clean


class LineInput(Input):
    """One line of text, without a border. Of what is pasted the first line is taken, cleaned."""

    DEFAULT_CSS = """
    LineInput, LineInput:focus { border: none; height: 1; padding: 0; background: $surface; }
    """

    def on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        lines = event.text.splitlines()
        if lines:
            self.replace(clean(lines[0]), *self.selection)
