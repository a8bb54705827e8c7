"""Keys that were typed ahead of the widget or the question that they are meant for."""

from __future__ import annotations

from collections import deque

from textual import events
from textual.app import App
from textual.dom import DOMNode

from edgecron.tui.list_view import LineView

_MOST_KEYS = 64  # keys in flight that are remembered
# Enter as a terminal sends it until the dashboard owns the terminal.
_TYPED_ENTER = "ctrl+j"
_NEVER_HELD = ("ctrl+c", "ctrl+q", "ctrl+z")  # You can leave while a slow database is read.


class TypedAheadApp(App[None]):
    """An application that sends keys typed ahead to the widget that they are meant for.

    Over a slow line `/run` is one packet. Textual sends each key to the widget that has the focus
    when the key comes, and looks for a binding if that widget ignores it. By then an earlier key
    may have moved the focus, and letters of a filter would become actions: `r` would start a run.
    """

    keys_typed = 0
    _sent_keys: deque[tuple[events.Key, DOMNode]] | None = None  # with the node they went to
    _held_keys: list[events.Key] | None = None  # None: no question is being prepared

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key) and not event.is_forwarded:
            self.keys_typed += 1
            if event.key == _TYPED_ENTER and _TYPED_ENTER not in self.screen.active_bindings:
                event = events.Key("enter", "\r")
            if self._hold(event):
                return
            self._note_sent(event)
        await super().on_event(event)

    def on_key(self, event: events.Key) -> None:
        """Send a key that its widget ignored to the widget that has the focus now.

        A list keeps the key if an earlier one has moved its cursor to a line that is not read yet.
        """
        if self._hold(event):
            event.prevent_default()
            return
        sent = next((node for key, node in self._sent_keys or () if key is event), None)
        focused = self.focused
        if sent is not None and focused is not None and sent is not focused:
            event.prevent_default()
            self.pass_on(event)
        elif isinstance(focused, LineView):
            focused.keep(event)

    def pass_on(self, key: events.Key) -> None:
        """Send a key to the widget that has the focus now.

        If an earlier key moves the focus before that widget sees this one, `on_key` sends it on.
        """
        if self._hold(key):
            return
        again = events.Key(key.key, key.character)
        self._note_sent(again)
        (self.focused or self.screen)._forward_event(again)

    def hold_keys(self) -> list[events.Key]:
        """Keep keys from the current screen: they are for a question that is being prepared.

        Call `release_keys` or `drop_keys` when the question is there, `drop_keys` if none comes.
        Keys that are held already are for it, too.
        """
        self._held_keys = list(self._held_keys or ())
        return self._held_keys

    def release_keys(self) -> None:
        """Send the held keys to the screen that has just mounted."""
        if self._held_keys is not None:
            self.hold_keys()  # The call that held them must not drop them.
            self.call_later(self._send_held_keys)  # After the focus, which a widget gets likewise.

    def drop_keys(self, held: list[events.Key] | None = None) -> None:
        """Drop the held keys; with `held`, only those of that call of `hold_keys`."""
        if held is None or held is self._held_keys:
            self._held_keys = None

    async def _send_held_keys(self) -> None:
        held, self._held_keys = self._held_keys, None
        # A key that came back from a widget can follow a later one that did not go to any.
        for key in sorted(held or (), key=lambda key: key.time):
            await self.on_event(events.Key(key.key, key.character))

    def _hold(self, key: events.Key) -> bool:
        """Hold a key if a question is being prepared; return whether it is held."""
        if self._held_keys is None or key.key in _NEVER_HELD:
            return False
        self._held_keys.append(key)
        return True

    def _note_sent(self, key: events.Key) -> None:
        if self._sent_keys is None:
            self._sent_keys = deque(maxlen=_MOST_KEYS)
        self._sent_keys.append((key, self.focused or self.screen))
