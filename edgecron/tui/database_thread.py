"""A thread with its own Client that answers questions of the screens."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from edgecron.base.errors import DatabaseUnusable, EdgecronError, QueryInterrupted, Unreadable
from edgecron.base.values import NamedTuple

if TYPE_CHECKING:
    from edgecron.client.protocol import Client

T = TypeVar("T")
Deliver = Callable[[Callable[[], None]], None]

_POLL_S = 0.25  # between two checks for changes by others
_RETRY_POLLS = 4  # polls between two tries to open the database
_ASK_AGAIN_POLLS = 8  # polls until a failed question is asked again
_CLOSE_RETRY_S = 0.02
_CLOSE_RETRIES = 250  # interrupts at the end, before the thread is abandoned


class _Question(NamedTuple):
    ask: Callable[[Client], Any]
    answer: Callable[[Any], None]
    refused: Callable[[EdgecronError], None]


class DatabaseThread:
    """Answer questions in the order they came.

    A question replaces one of the same topic that was not begun. `opened` makes the Client, on this
    thread. `first_opened` makes the one that answers only the first question. `deliver` calls a
    function on the screen's thread. `changed` is delivered if others committed, if the database was
    replaced, and if it can be read again. `troubled` is delivered with the error that keeps the
    database from being used, or None, whenever that changes. A defect ends the thread and is raised
    on the screen's thread.
    """

    def __init__(
        self,
        opened: Callable[[], Client],
        *,
        deliver: Deliver,
        name: str,
        changed: Callable[[], None] | None = None,
        troubled: Callable[[EdgecronError | None], None] | None = None,
        first_opened: Callable[[], Client] | None = None,
    ) -> None:
        self._opened = opened
        self._first_opened = first_opened
        self._deliver = deliver
        self._changed = changed
        self._troubled = troubled
        self._trouble: EdgecronError | None = None
        self._failed_to_open = False  # could the database not be opened
        self._failed_topic: str | None = None  # of a question that failed on an open database
        self._polls = 0
        self._is_reporting_change = False  # is `changed` on its way to the screen
        self.was_open = False
        self._questions: dict[str, _Question] = {}
        self._wake = threading.Condition()
        self._is_closed = False
        self._client: Client | None = None
        self._change_mark: int | None = None
        self._topic: str | None = None  # of the question being answered
        self._thread = threading.Thread(target=self._serve, name=name)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the thread is running."""
        return self._thread.is_alive()

    @property
    def is_busy(self) -> bool:
        """Whether a question waits or is being answered."""
        with self._wake:
            return bool(self._questions) or self._topic is not None

    def ask(
        self,
        topic: str,
        question: Callable[[Client], T],
        *,
        answer: Callable[[T], None],
        refused: Callable[[EdgecronError], None],
    ) -> None:
        """Ask; call `answer` or `refused` on the screen's thread if no newer one replaces it."""
        with self._wake:
            self._questions[topic] = _Question(question, answer, refused)
            self._wake.notify()

    def interrupt(self, topic: str) -> None:
        """Interrupt the question of this topic, if it is being answered.

        If that succeeds, neither `answer` nor `refused` is called.
        """
        with self._wake:
            if self._topic == topic and self._client is not None:
                self._client.interrupt()

    def close(self) -> None:
        """Interrupt the current question and end the thread, within 5 s."""
        with self._wake:
            self._is_closed = True
            self._questions.clear()
            self._wake.notify()
        if self._thread.ident is None:
            return  # It was never started.
        for _ in range(_CLOSE_RETRIES):
            with self._wake:
                # Repeated: an interrupt between two statements has no effect.
                if self._client is not None:
                    self._client.interrupt()
            self._thread.join(_CLOSE_RETRY_S)
            if not self._thread.is_alive():
                return

    def _serve(self) -> None:
        try:
            while (question := self._next()) is not None:
                self._poll()  # Notice a replaced database: the old file would still answer.
                self._answer(question)
                if self._first_opened is not None:
                    self._first_opened = None
                    self._close_client()
                with self._wake:
                    self._topic = None
        except Exception as error:  # noqa: BLE001 - a defect, raised on the screen's thread
            self._deliver(partial(raise_here, error))
        finally:
            self._close_client()

    def retry(self) -> None:
        """Try soon to open the database again: it might exist now."""
        with self._wake:
            self._polls = _RETRY_POLLS
            self._wake.notify()

    def lock_waits(self) -> int:
        """Return how often this thread waited for a lock; while it grows, it is waiting."""
        with self._wake:
            return 0 if self._client is None else self._client.lock_waits()

    def _next(self) -> _Question | None:
        """Return the next question; None to end."""
        while True:
            with self._wake:
                if not self._questions and not self._is_closed:
                    self._wake.wait(None if self._changed is None else _POLL_S)
                if self._is_closed:
                    return None
                for topic in self._questions:
                    self._topic = topic
                    return self._questions.pop(topic)
            self._poll()
            self._poll_recovery()

    def _answer(self, question: _Question) -> None:
        try:
            found = question.ask(self._open())
        except QueryInterrupted:
            return  # It was interrupted.
        except EdgecronError as error:
            if isinstance(error, DatabaseUnusable) and not isinstance(error, Unreadable):
                self._close_client()
                if not self._failed_to_open:
                    self._failed_topic = self._topic
                    self._report_trouble(error)
            self._deliver(partial(question.refused, error))
        else:
            if self._failed_topic is not None and self._topic == self._failed_topic:
                self._report_trouble(None)
            self._deliver(partial(question.answer, found))

    def _poll(self) -> None:
        """Check whether others changed, replaced or removed the database."""
        if self._client is None:
            return
        try:
            mark = self._client.change_mark()
        except EdgecronError:
            self._close_client()
            self._reopen()
            return
        if mark != self._change_mark:
            self._change_mark = mark
            self._report_change()

    def _poll_recovery(self) -> None:
        """Check now and then whether the trouble is over."""
        if self._trouble is None or self._changed is None:
            return
        self._polls += 1
        if self._failed_to_open and self._polls >= _RETRY_POLLS:
            self._polls = 0
            self._reopen()
        elif self._polls >= _ASK_AGAIN_POLLS:
            self._polls = 0
            self._report_change()
            if self._failed_topic is None:
                self._report_trouble(None)
            self._failed_topic = None  # If it fails again, it is reported again.

    def _reopen(self) -> None:
        with suppress(EdgecronError):  # `_open` reported it.
            self._open()
            self._report_change()

    def _open(self) -> Client:
        if self._client is not None:
            return self._client
        try:
            client = (self._first_opened or self._opened)()
            mark = client.change_mark()
        except EdgecronError as error:
            self._failed_to_open = True
            self._failed_topic = None
            self._report_trouble(error)
            raise
        with self._wake:
            self._client, self._change_mark, self.was_open = client, mark, True
        if self._failed_to_open:
            self._failed_to_open = False
            self._report_trouble(None)
        return client

    def _report_trouble(self, error: EdgecronError | None) -> None:
        """Report the error that keeps the database from being used, if it changed."""
        if error is None:
            self._failed_topic = None
        if (None if error is None else error.message) == (
            None if self._trouble is None else self._trouble.message
        ):
            return
        self._trouble = error
        self._polls = 0
        if self._troubled is not None:
            self._deliver(partial(self._troubled, error))

    def _report_change(self) -> None:
        # One at a time: the screen may take nothing for hours, while a pager has the terminal.
        if self._changed is not None and not self._is_reporting_change:
            self._is_reporting_change = True
            self._deliver(partial(self._deliver_change, self._changed))

    def _deliver_change(self, changed: Callable[[], None]) -> None:
        self._is_reporting_change = False  # Report commits from here on again.
        changed()

    def _close_client(self) -> None:
        with self._wake:
            client, self._client = self._client, None
        if client is not None:
            client.close()


def raise_here(error: Exception) -> None:
    """Raise an error that another thread caught."""
    raise error
