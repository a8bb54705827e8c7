"""The application's base: clock, database threads, and notices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

from textual.driver import Driver
from textual.message import Message
from textual.notifications import SeverityLevel
from textual.reactive import reactive

from edgecron.base.clock import Clock
from edgecron.base.errors import DatabaseBusy, DatabaseGone, EdgecronError, NotFound
from edgecron.base.safetext import clean
from edgecron.base.units import from_ms
from edgecron.base.values import NamedTuple
from edgecron.tui.database_thread import DatabaseThread
from edgecron.tui.early_keys import TypedAheadApp
from edgecron.tui.keys import DEFAULT_LABELS
from edgecron.tui.themes import set_no_color
from edgecron.views.phrases import error_words

if TYPE_CHECKING:
    from edgecron.client.protocol import Client
    from edgecron.model.choices import HealthState
    from edgecron.model.run import Execution

T = TypeVar("T")
# How long a notice stays. An error takes longer to read.
_NOTICE_S: Mapping[SeverityLevel, float] = {"information": 5.0, "warning": 8.0, "error": 12.0}
_LOCK_POLL_S = 1.0
_LOCKED = DatabaseBusy(
    "another program holds the database lock: your change waits until it is released"
)


class Made(NamedTuple):
    """A change of a schedule from this dashboard: the revision that it made."""

    name: str
    revision: int


class Journal:
    """Changes of this dashboard, newest last, and those that it undid.

    An undo waits for actions that are being done, so that it undoes the newest one.
    """

    def __init__(self) -> None:
        self.done: list[tuple[Made, ...]] = []
        self.undone: list[tuple[Made, ...]] = []
        self._seen: dict[str, int] = {}  # the last revision of each schedule
        self._running = 0
        self._waiting: list[Callable[[], None]] = []

    def add(self, made: tuple[Made, ...]) -> None:
        """Note changes; what was undone before can no longer be redone."""
        if made:
            self.done.append(made)
            self.undone.clear()
            self.note(made)

    def note(self, made: tuple[Made, ...]) -> None:
        """Note the last revisions of schedules."""
        self._seen |= {one.name: one.revision for one in made}

    def seen(self, name: str) -> int | None:
        """Return the last revision of a schedule that this dashboard made."""
        return self._seen.get(name)

    def begin(self) -> None:
        """Note that an action is being done."""
        self._running += 1

    def end(self) -> None:
        """Note that an action was done, and begin the one that waited for it."""
        self._running -= 1
        while self._waiting and not self._running:
            self._waiting.pop(0)()

    def when_done(self, then: Callable[[], None]) -> None:
        """Call a function when no action is being done."""
        if self._running:
            self._waiting.append(then)
        else:
            then()

    def drop_waiting(self) -> None:
        """Forget what waits: a question was opened, and keys typed before are not for it."""
        self._waiting.clear()


class Engines(NamedTuple):
    """Process ids of engines that start due runs, and how many are stalled or gone."""

    alive: tuple[int, ...]
    stalled: int
    gone: int
    is_clock_trusted: bool


class Overview(NamedTuple):
    """The content of the status line; `owed` of the queued runs wait for a condition."""

    place: str
    engines: Engines
    schedules: int
    broken: int
    vanished: int
    health: Mapping[HealthState, int]
    running: int
    queued: int
    owed: int
    last_failure: Execution | None
    database_bytes: int
    wal_bytes: int


class Changed(Message):
    """Tell a screen that the database changed, was replaced, or became (un)readable."""


class DatabaseApp(TypedAheadApp):
    """An application with a database: one thread reads, another one writes.

    `opened` makes a Client; each thread calls it for itself. `writing` makes the writer's Client.
    Its argument says whether the database must exist (True) or can be created. `first_opened` opens
    what reads the first lines, if less code is enough for them. `driver_class` holds
    the terminal (None: Textual's own). `crash` is the defect that ended the application.

    `labels` are the keys of each action as people read them. `progress` is shown instead of the key
    line while it is not empty. `overview` is what the status line shows. `defaults` returns the
    option values of a new schedule. `journal` has the changes that this dashboard made.
    `machine_root` is the root folder of the database's machine; None if that is another machine.
    """

    labels: Mapping[str, tuple[str, ...]] = DEFAULT_LABELS
    progress: reactive[str] = reactive("")
    overview: reactive[Overview | None] = reactive(None)
    defaults: Callable[[], Mapping[str, object]] = dict
    machine_root: Path | None = None
    _is_leaving = False

    def __init__(
        self,
        opened: Callable[[], Client],
        *,
        clock: Clock,
        zone: tzinfo,
        is_colored: bool = True,
        driver_class: type[Driver] | None = None,
        writing: Callable[[bool], Client] | None = None,
        first_opened: Callable[[], Client] | None = None,
    ) -> None:
        with set_no_color(not is_colored):
            # Without colours, Textual draws in shades of grey unless it keeps the terminal's own.
            super().__init__(driver_class=driver_class, ansi_color=None if is_colored else True)
        self.opened = opened
        self.clock = clock
        self.zone = zone
        self.crash: BaseException | None = None
        self.journal = Journal()
        self._read_trouble: EdgecronError | None = None
        self._write_trouble: EdgecronError | None = None
        self.stops: list[Event] = []  # of actions on several lines; set to stop them
        self._notice = ""  # the last one
        self._lock_waits = 0
        self._is_watching_lock = False
        self._reader = DatabaseThread(
            opened,
            deliver=self.deliver,
            name="dashboard-reader",
            first_opened=first_opened,
            changed=self.post_changed,
            troubled=self._note_read_trouble,
        )
        self._writer = DatabaseThread(
            opened if writing is None else lambda: writing(self._reader.was_open),
            deliver=self.deliver,
            name="dashboard-writer",
        )

    @property
    def trouble(self) -> EdgecronError | None:
        """The error that keeps the database from being read or written; None if there is none."""
        return self._read_trouble or self._write_trouble

    @property
    def write_trouble(self) -> EdgecronError | None:
        """The error that keeps a requested write waiting; None if there is none."""
        return self._write_trouble

    @property
    def is_absent(self) -> bool:
        """Whether the database does not exist yet."""
        return isinstance(self._read_trouble, NotFound) and not self._reader.was_open

    @property
    def engine_pid(self) -> int | None:
        """The process id of the engine that this application runs; None without one."""
        return None

    @property
    def engine_key(self) -> str:
        """The key that starts an engine; empty if this application can't start one."""
        return ""

    def now(self) -> datetime:
        """Return wall time, aware, in UTC."""
        return from_ms(self.clock.now_ms())

    def label(self, action: str) -> str:
        """Return the key of an action as people read it; empty if it has none."""
        return next(iter(self.labels[action]), "")

    # The database threads.

    def start_threads(self) -> None:
        """Start both database threads; `stop_threads` ends them."""
        self._reader.start()
        self._writer.start()

    def run(self, *args: Any, **options: Any) -> None:
        """Run until the user leaves, and end the database threads."""
        try:
            super().run(*args, **options)
        finally:
            # If the terminal is gone, Textual can fail before it unmounts the application.
            self.stop_threads()

    def stop_threads(self) -> None:
        self._reader.close()
        self._writer.close()

    def deliver(self, function: Callable[[], None]) -> None:
        """Call a function on the screen's thread; from any thread."""
        self.call_later(self._take_delivery, function)

    def _take_delivery(self, function: Callable[[], None]) -> None:
        if self.is_running:  # Otherwise its screens are being removed.
            function()

    def ask(
        self,
        topic: str,
        question: Callable[[Client], T],
        answer: Callable[[T], None],
        *,
        refused: Callable[[], None] | None = None,
    ) -> None:
        """Read something on the reader's thread, and pass it to `answer`.

        An unreadable database is shown as `trouble`; any other error as a notice. `refused` is
        called in both cases.
        """

        def failed(error: EdgecronError) -> None:
            if self._read_trouble is None:  # Otherwise the banner shows it.
                self._show_refusal(error)
            if refused is not None:
                refused()

        self._reader.ask(topic, question, answer=answer, refused=failed)

    def interrupt(self, topic: str) -> None:
        """Interrupt a question of this topic if it is being answered: no answer comes."""
        self._reader.interrupt(topic)

    def do(
        self,
        topic: str,
        act: Callable[[Client], T],
        *,
        done: Callable[[T], None],
        refused: Callable[[EdgecronError], None],
    ) -> None:
        """Write something on the writer's thread; reads continue meanwhile."""

        def ended() -> None:
            self._note_write_trouble(None)
            if self._read_trouble is not None:
                self._reader.retry()  # The write may have created the database.

        def answered(found: T) -> None:
            ended()
            done(found)

        def failed(error: EdgecronError) -> None:
            ended()
            trouble = self._read_trouble
            is_gone = isinstance(error, NotFound) and isinstance(trouble, DatabaseGone)
            refused(trouble if is_gone and trouble else error)  # It says how to mend that.

        self._writer.ask(topic, act, answer=answered, refused=failed)
        if not self._is_watching_lock:
            self._is_watching_lock = True
            self._lock_waits = self._writer.lock_waits()
            self.set_timer(_LOCK_POLL_S, self._watch_lock)

    def ensure_database(self, then: Callable[[], None]) -> None:
        """Call `then` once there is a database: if there is none yet, create it."""
        if not self.is_absent:
            then()
            return
        self.do(
            "make the database",
            lambda client: client.count_schedules(),
            done=lambda _: then(),
            refused=self._show_refusal,
        )

    def post_changed(self) -> None:
        """Tell every screen that the database changed."""
        for screen in self.screen_stack:
            screen.post_message(Changed())

    def _show_refusal(self, error: EdgecronError) -> None:
        self.clear_notifications()  # The same refusal may come again and again.
        self.notify(clean(error_words(error)), severity="error", markup=False)

    def _note_read_trouble(self, error: EdgecronError | None) -> None:
        if isinstance(error, NotFound) and self._reader.was_open:
            hint = "put the file back, or restore a backup: edgecron restore BACKUP"
            error = DatabaseGone(
                f"{error.message}: another program removed or replaced it", hint=hint
            )
        self._read_trouble = error
        self.post_changed()

    def _note_write_trouble(self, error: EdgecronError | None) -> None:
        if (error is None) is not (self._write_trouble is None):
            self._write_trouble = error
            self.post_changed()

    def _watch_lock(self) -> None:
        """Show, for as long as it lasts, that a write waits for another program."""
        if not self._writer.is_busy:
            self._is_watching_lock = False
            self._note_write_trouble(None)
            return
        waits, before = self._writer.lock_waits(), self._lock_waits
        self._lock_waits = waits
        self._note_write_trouble(_LOCKED if waits > before else None)
        self.set_timer(_LOCK_POLL_S, self._watch_lock)

    def open_schedule(self, name: str) -> None:
        """Open a schedule over the first screen; an application without one does nothing."""

    # Notices.

    def show_notice(self, words: str, *, severity: SeverityLevel = "information") -> None:
        """Show a notice for some seconds; it replaces the one before."""
        self._notice = words
        self.clear_notifications()
        self.notify(
            clean(words, keep="\n"), severity=severity, timeout=_NOTICE_S[severity], markup=False
        )

    def end_notice(self, words: str) -> None:
        """Stop showing a notice that is no longer true, unless another one replaced it."""
        if words and words == self._notice:
            self.clear_notifications()

    def show_error(self, error: EdgecronError) -> None:
        """Show the error of something the user asked for."""
        self.show_notice(error_words(error), severity="error")

    def show_progress(self, words: str) -> None:
        """Show progress instead of the key line; empty words bring the keys back."""
        self.progress = words

    def action_stop_act(self) -> None:
        """Stop the actions on many lines before their next one."""
        for stop in self.stops:
            stop.set()
        self.show_progress("stopping ...")

    def leave(self) -> None:
        """End the application. If an action is not finished, ask first; a second call insists."""
        unfinished = self.progress or (
            "" if self.write_trouble is None else self.write_trouble.message
        )
        if not unfinished or self._is_leaving:
            self.exit()
            return

        # Loaded when needed: the first screen shows no dialog.
        from edgecron.tui.dialogs import ConfirmDialog

        def answered(is_agreed: bool | None) -> None:
            self._is_leaving = False
            if is_agreed:
                self.exit()

        self._is_leaving = True
        words = (clean(unfinished), "Changes that are not done yet may be lost.")
        dialog = ConfirmDialog("Leave now?", words, yes="leave now", no="stay", is_danger=True)
        self.push_screen(dialog, answered)

    # Crashes.

    def _handle_exception(self, error: Exception) -> None:
        # Textual's report would quote the values of our variables unescaped, with names and output
        # of other people. The caller reports the crash once the terminal is restored.
        self.crash = self.crash or error  # later ones can follow from the first
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        self._close_messages_no_wait()
