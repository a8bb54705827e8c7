"""A thread with a database of its own: questions go to it, answers come back to the screen."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from edgecron.base.errors import DatabaseUnusable, EdgecronError, QueryInterrupted, Unreadable
from edgecron.base.values import NamedTuple
from edgecron.client.protocol import Client

T = TypeVar("T")
Deliver = Callable[[Callable[[], None]], None]

_LOOK_S = 0.25  # between two looks whether somebody has changed the database
_RETRY_LOOKS = 4  # between two tries to open what could not be opened
_ANEW_LOOKS = 8  # and to ask anew what could not be answered
_NUDGE_S = 0.02
_NUDGES = 250  # at the end of the thread, before it is left to itself


class _Question(NamedTuple):
    ask: Callable[[Client], Any]
    answer: Callable[[Any], None]
    refused: Callable[[EdgecronError], None]


class DatabaseThread:
    """Answers questions one after the other, those that were asked first before the others.

    A question of the same topic takes the place of one that was not begun. `deliver` runs a
    function on the screen's thread; `changed` is delivered when others have committed, and when
    the database is another one, or can be read again. `troubled` is delivered with what keeps the
    database from being used, when that changes: None, nothing does.
    `opened` makes the Client, on the desk's own thread. A defect of ours ends the thread, and
    is raised on the screen's.
    """

    def __init__(
        self,
        opened: Callable[[], Client],
        *,
        deliver: Deliver,
        name: str,
        changed: Callable[[], None] | None = None,
        troubled: Callable[[EdgecronError | None], None] | None = None,
    ) -> None:
        self._opened = opened
        self._deliver = deliver
        self._changed = changed
        self._troubled = troubled
        self._trouble: EdgecronError | None = None
        self._is_shut = False  # it could not be opened
        self._failed_topic: str | None = None  # of what could not be answered, though it is open
        self._looks = 0
        self._is_telling = False  # is it on its way to the screen that something has changed
        self.was_open = False
        self._questions: dict[str, _Question] = {}
        self._bell = threading.Condition()
        self._is_closed = False
        self._client: Client | None = None
        self._mark: int | None = None
        self._topic: str | None = None  # of what is being answered
        self._thread = threading.Thread(target=self._serve, name=name)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether its thread still runs."""
        return self._thread.is_alive()

    @property
    def is_busy(self) -> bool:
        """Whether something is asked that has not been answered."""
        with self._bell:
            return bool(self._questions) or self._topic is not None

    def ask(
        self,
        topic: str,
        question: Callable[[Client], T],
        *,
        answer: Callable[[T], None],
        refused: Callable[[EdgecronError], None],
    ) -> None:
        """Ask; `answer` or `refused` is called on the screen's thread, unless it is asked anew."""
        with self._bell:
            self._questions[topic] = _Question(question, answer, refused)
            self._bell.notify()

    def interrupt(self, topic: str) -> None:
        """End the answering of a question of this topic, as far as it can be ended: where it is,
        neither `answer` nor `refused` is called."""
        with self._bell:
            if self._topic == topic and self._client is not None:
                self._client.interrupt()

    def close(self) -> None:
        """End the thread; a question that is being answered is broken off. Bounded."""
        with self._bell:
            self._is_closed = True
            self._questions.clear()
            self._bell.notify()
        if self._thread.ident is None:
            return  # It was never started.
        for _ in range(_NUDGES):
            with self._bell:
                # Again and again: one that comes between two statements ends nothing.
                if self._client is not None:
                    self._client.interrupt()
            self._thread.join(_NUDGE_S)
            if not self._thread.is_alive():
                return

    def _serve(self) -> None:
        try:
            while (question := self._next()) is not None:
                self._look()  # A database that was replaced would go on answering.
                self._answer(question)
                with self._bell:
                    self._topic = None
        except Exception as error:  # noqa: BLE001 - a defect of ours: it is raised where it is told
            self._deliver(partial(raise_here, error))
        finally:
            self._let_go()

    def retry(self) -> None:
        """Try soon to open what could not be opened: there is reason to think that it can be."""
        with self._bell:
            self._looks = _RETRY_LOOKS
            self._bell.notify()

    def lock_waits(self) -> int:
        """How often another's lock was waited for: while it grows, it is."""
        with self._bell:
            return 0 if self._client is None else self._client.lock_waits()

    def _next(self) -> _Question | None:
        """The next question; None when it is time to end."""
        while True:
            with self._bell:
                if not self._questions and not self._is_closed:
                    self._bell.wait(None if self._changed is None else _LOOK_S)
                if self._is_closed:
                    return None
                for topic in self._questions:
                    self._topic = topic
                    return self._questions.pop(topic)
            self._look()
            self._look_for_health()

    def _answer(self, question: _Question) -> None:
        try:
            found = question.ask(self._open())
        except QueryInterrupted:
            return  # It was broken off.
        except EdgecronError as error:
            if isinstance(error, DatabaseUnusable) and not isinstance(error, Unreadable):
                self._let_go()
                if not self._is_shut:
                    self._failed_topic = self._topic
                    self._note(error)
            self._deliver(partial(question.refused, error))
        else:
            if self._failed_topic is not None and self._topic == self._failed_topic:
                self._note(None)
            self._deliver(partial(question.answer, found))

    def _look(self) -> None:
        """Notice that the database was changed by others, has become another one, or has gone."""
        if self._client is None:
            return
        try:
            mark = self._client.change_mark()
        except EdgecronError:
            self._let_go()
            self._try_again()
            return
        if mark != self._mark:
            self._mark = mark
            self._tell_changed()

    def _look_for_health(self) -> None:
        """Find out now and then whether what was wrong has been put right."""
        if self._trouble is None or self._changed is None:
            return
        self._looks += 1
        if self._is_shut and self._looks >= _RETRY_LOOKS:
            self._looks = 0
            self._try_again()
        elif self._looks >= _ANEW_LOOKS:
            self._looks = 0
            self._tell_changed()
            if self._failed_topic is None:
                self._note(None)
            self._failed_topic = None  # It is told again where it fails again.

    def _try_again(self) -> None:
        with suppress(EdgecronError):  # It has been noted.
            self._open()
            self._tell_changed()

    def _open(self) -> Client:
        if self._client is not None:
            return self._client
        try:
            client = self._opened()
            mark = client.change_mark()
        except EdgecronError as error:
            self._is_shut = True
            self._failed_topic = None
            self._note(error)
            raise
        with self._bell:
            self._client, self._mark, self.was_open = client, mark, True
        if self._is_shut:
            self._is_shut = False
            self._note(None)
        return client

    def _note(self, error: EdgecronError | None) -> None:
        """Tell what keeps the database from being used, where that is something else now."""
        if error is None:
            self._failed_topic = None
        if (None if error is None else error.message) == (
            None if self._trouble is None else self._trouble.message
        ):
            return
        self._trouble = error
        self._looks = 0
        if self._troubled is not None:
            self._deliver(partial(self._troubled, error))

    def _tell_changed(self) -> None:
        # Once at a time: the screen may take nothing for hours, as while a pager has the terminal.
        if self._changed is not None and not self._is_telling:
            self._is_telling = True
            self._deliver(partial(self._say_changed, self._changed))

    def _say_changed(self, changed: Callable[[], None]) -> None:
        self._is_telling = False  # What is committed from here on is told again.
        changed()

    def _let_go(self) -> None:
        with self._bell:
            client, self._client = self._client, None
        if client is not None:
            client.close()


def raise_here(error: Exception) -> None:
    """Raise what was caught on another thread."""
    raise error
