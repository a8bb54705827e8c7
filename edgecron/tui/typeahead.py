"""Keys that come faster than the screen follows, as over a slow line, where `/run` is one packet.

Textual sends each key to what has the focus when it comes, and looks for a binding when nobody
there took it; by then a key before it may have moved the focus. Without this the letters of a
filter would be actions: `r` would run something.
"""

from __future__ import annotations

from collections import deque

from textual import events
from textual.app import App
from textual.dom import DOMNode

_MOST_KEYS = 64  # that are on their way at a time


class TypingAhead(App[None]):
    """An application where a key goes to what has the focus after all keys before it."""

    _sent: deque[tuple[events.Key, DOMNode]] | None = None  # keys on their way, and whereto

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key) and not event.is_forwarded:
            self._note_sent(event)
        await super().on_event(event)

    def on_key(self, event: events.Key) -> None:
        """A key that nobody took to whom it was sent: if the focus moved meanwhile, the next."""
        sent = next((node for key, node in self._sent or () if key is event), None)
        focused = self.focused
        if sent is not None and focused is not None and sent is not focused:
            event.prevent_default()
            again = events.Key(event.key, event.character)
            self._note_sent(again)
            focused._forward_event(again)

    def _note_sent(self, key: events.Key) -> None:
        if self._sent is None:
            self._sent = deque(maxlen=_MOST_KEYS)
        self._sent.append((key, self.focused or self.screen))
