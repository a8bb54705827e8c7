"""What screens stand on: the clock, the two desks, and what went wrong."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo
from typing import TypeVar

from textual import events
from textual.app import App
from textual.dom import DOMNode
from textual.driver import Driver
from textual.message import Message
from textual.notifications import SeverityLevel
from textual.reactive import reactive

from edgecron.base.clock import Clock
from edgecron.base.errors import DatabaseBusy, DatabaseGone, EdgecronError, NotFound
from edgecron.base.safetext import clean
from edgecron.base.units import from_ms
from edgecron.client.protocol import Client
from edgecron.tui.database_thread import DatabaseThread
from edgecron.tui.keys import DEFAULT_LABELS
from edgecron.tui.themes import set_no_color
from edgecron.views.phrases import error_words

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


T = TypeVar("T")
_LOCK_LOOK_S = 1.0
_LOCKED = DatabaseBusy(
    "another program is writing to the database: what you asked for waits until it lets go"
)


class Delivered(Message):
    """Something that a desk has to say, to be done on the screen's thread."""

    def __init__(self, deliver: Callable[[], None]) -> None:
        super().__init__()
        self.deliver = deliver


class Changed(Message):
    """Others have changed the database, it has become another one, or can't be read."""


class Host(TypingAhead):
    """An application with a database: one desk reads, the other one writes.

    `opened` makes a Client of it, on whichever thread asks; `writing` one for who writes: it is
    told whether the database must be there, or may be made where none was yet. `driver_class`
    holds the terminal, None is Textual's own. `crash` is what went wrong where it has ended by a
    defect of ours.
    """

    def __init__(
        self,
        opened: Callable[[], Client],
        *,
        clock: Clock,
        zone: tzinfo,
        is_colored: bool = True,
        driver_class: type[Driver] | None = None,
        writing: Callable[[bool], Client] | None = None,
    ) -> None:
        with set_no_color(not is_colored):
            # Without colours Textual would draw in shades of grey, were it not told to leave the
            # terminal's own as they are.
            super().__init__(driver_class=driver_class, ansi_color=None if is_colored else True)
        self.opened = opened
        self.clock = clock
        self.zone = zone
        self.crash: BaseException | None = None
        self._read_trouble: EdgecronError | None = None
        self._write_trouble: EdgecronError | None = None
        self._lock_waits = 0
        self._is_looking_for_lock = False
        self._reader = DatabaseThread(
            opened,
            deliver=self.deliver,
            name="dashboard-reader",
            changed=self.post_changed,
            troubled=self._note_read_trouble,
        )
        self._doer = DatabaseThread(
            opened if writing is None else lambda: writing(self._reader.was_open),
            deliver=self.deliver,
            name="dashboard-doer",
        )

    @property
    def trouble(self) -> EdgecronError | None:
        """What keeps the database from being read or written; None where nothing does."""
        return self._read_trouble or self._write_trouble

    @property
    def write_trouble(self) -> EdgecronError | None:
        """What keeps that from being written which was asked for; None where nothing does."""
        return self._write_trouble

    @property
    def is_absent(self) -> bool:
        """Whether there is no database yet."""
        return isinstance(self._read_trouble, NotFound) and not self._reader.was_open

    def now(self) -> datetime:
        """Wall time, aware, in UTC."""
        return from_ms(self.clock.now_ms())

    def start_threads(self) -> None:
        """Start both desks; `close_desks` ends them."""
        self._reader.start()
        self._doer.start()

    def stop_threads(self) -> None:
        self._reader.close()
        self._doer.close()

    def deliver(self, told: Callable[[], None]) -> None:
        """Have something done on the screen's thread; from any thread."""
        self.post_message(Delivered(told))

    def on_delivered(self, message: Delivered) -> None:
        if self.is_running:  # else its screens are being taken apart
            message.deliver()

    def ask(
        self,
        topic: str,
        question: Callable[[Client], T],
        answer: Callable[[T], None],
        *,
        refused: Callable[[], None] | None = None,
    ) -> None:
        """Read something. That the database can't be read is `trouble` until it can; what else
        goes wrong is said. `refused` is called beside that."""

        def failed(error: EdgecronError) -> None:
            self._note_refusal(error)
            if refused is not None:
                refused()

        self._reader.ask(topic, question, answer=answer, refused=failed)

    def interrupt(self, topic: str) -> None:
        """End the answering of a question, if it is this one: no answer comes."""
        self._reader.interrupt(topic)

    def do(
        self,
        topic: str,
        act: Callable[[Client], T],
        *,
        done: Callable[[T], None],
        refused: Callable[[EdgecronError], None],
    ) -> None:
        """Write something, beside what is being read."""

        def ended() -> None:
            self._note_write_trouble(None)
            if self._read_trouble is not None:
                self._reader.retry()  # It may just have been made.

        def answered(found: T) -> None:
            ended()
            done(found)

        def failed(error: EdgecronError) -> None:
            ended()
            refused(error)

        self._doer.ask(topic, act, answer=answered, refused=failed)
        if not self._is_looking_for_lock:
            self._is_looking_for_lock = True
            self._lock_waits = self._doer.lock_waits()
            self.set_timer(_LOCK_LOOK_S, self._look_for_lock)

    def ensure_database(self, then: Callable[[], None]) -> None:
        """Do something for which there must be a database: where there is none yet, it is made."""
        if not self.is_absent:
            then()
            return
        self.do(
            "make the database",
            lambda client: client.count_schedules(),
            done=lambda _: then(),
            refused=self._tell_refusal,
        )

    def post_changed(self) -> None:
        """Tell every screen that there is something else to show."""
        for screen in self.screen_stack:
            screen.post_message(Changed())

    def _note_refusal(self, error: EdgecronError) -> None:
        if self._read_trouble is None:  # else that tells it
            self._tell_refusal(error)

    def _tell_refusal(self, error: EdgecronError) -> None:
        self.clear_notifications()  # It may be refused again and again.
        self.notify(clean(error_words(error)), severity="error", markup=False)

    def _note_read_trouble(self, error: EdgecronError | None) -> None:
        if isinstance(error, NotFound) and self._reader.was_open:
            hint = "put it back, or restore a backup: edgecron restore"
            error = DatabaseGone(f"{error.message} any more", hint=hint)
        self._read_trouble = error
        self.post_changed()

    def _note_write_trouble(self, error: EdgecronError | None) -> None:
        if (error is None) is not (self._write_trouble is None):
            self._write_trouble = error
            self.post_changed()

    def _look_for_lock(self) -> None:
        """Tell of what is to be written and waits for another program, as long as it does."""
        if not self._doer.is_busy:
            self._is_looking_for_lock = False
            self._note_write_trouble(None)
            return
        waits, before = self._doer.lock_waits(), self._lock_waits
        self._lock_waits = waits
        self._note_write_trouble(_LOCKED if waits > before else None)
        self.set_timer(_LOCK_LOOK_S, self._look_for_lock)

    def _handle_exception(self, error: Exception) -> None:
        # Of Textual: what it shows would quote the values of our variables, names and output of
        # others among them, as they are. Whoever runs us tells it, when the terminal is restored.
        self.crash = error
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        self._close_messages_no_wait()


# For how long it is said; what went wrong takes longer to read.
_TOLD_S: Mapping[SeverityLevel, float] = {"information": 5.0, "warning": 8.0, "error": 12.0}


class Telling(Host):
    """A host that says what became of something. `labels` are the keys of actions as people read
    them; `progress` is how far something is that takes a while, empty where nothing is; `defaults`
    are what a new schedule has unless it says otherwise, by key of a document; `removed` are the
    schedules that were removed last from here, until they are restored."""

    labels: Mapping[str, tuple[str, ...]] = DEFAULT_LABELS
    progress: reactive[str] = reactive("")
    defaults: Callable[[], Mapping[str, object]] = dict
    removed: tuple[str, ...] = ()
    _is_leaving = False

    @property
    def engine_pid(self) -> int | None:
        """The process id of the engine that runs from here; None where none does."""
        return None

    @property
    def engine_key(self) -> str:
        """The key that runs an engine from here; empty where none can be run."""
        return ""

    def tell(self, words: str, *, severity: SeverityLevel = "information") -> None:
        """Say what became of something, for some seconds, in the place of what was said before."""
        self.clear_notifications()
        self.notify(
            clean(words, keep="\n"), severity=severity, timeout=_TOLD_S[severity], markup=False
        )

    def show_error(self, error: EdgecronError) -> None:
        """Say what went wrong with something that was asked for."""
        self.tell(error_words(error), severity="error")

    def label(self, action: str) -> str:
        """The key of an action as people read it; empty where it has none."""
        return next(iter(self.labels[action]), "")

    def leave(self) -> None:
        """End, but ask before what was asked for is left half done; whoever insists is let go."""
        going_on = self.progress or (
            "" if self.write_trouble is None else self.write_trouble.message
        )
        if not going_on or self._is_leaving:
            self.exit()
            return
        from edgecron.tui.dialogs import ConfirmDialog

        def answered(is_agreed: bool | None) -> None:
            self._is_leaving = False
            if is_agreed:
                self.exit()

        self._is_leaving = True
        words = (clean(going_on), "What is not done yet may be left undone.")
        self.push_screen(ConfirmDialog("Leave now?", words, yes="leave", is_danger=True), answered)

    def show_progress(self, words: str) -> None:
        """Say how far something is, in the place of the keys; empty: it has ended."""
        self.progress = words
