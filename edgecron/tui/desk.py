"""A thread with a database of its own: questions go to it, answers come back to the screen."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from edgecron.api import Scheduler
from edgecron.errors import EdgecronError, QueryInterrupted

T = TypeVar("T")
Deliver = Callable[[Callable[[], None]], None]

_LOOK_S = 0.25  # between two looks whether somebody has changed the database
_JOIN_S = 5.0


class _Question(NamedTuple):
    ask: Callable[[Scheduler], Any]
    answer: Callable[[Any], None]
    refused: Callable[[EdgecronError], None]


class Desk:
    """Answers questions one after the other, those that were asked first before the others.

    A question of the same topic takes the place of one that was not begun. `deliver` runs a
    function on the screen's thread; `changed` is delivered when others have committed.
    `opened` makes the Scheduler, on the desk's own thread.
    """

    def __init__(
        self,
        opened: Callable[[], Scheduler],
        *,
        deliver: Deliver,
        name: str,
        changed: Callable[[], None] | None = None,
    ) -> None:
        self._opened = opened
        self._deliver = deliver
        self._changed = changed
        self._questions: dict[str, _Question] = {}
        self._bell = threading.Condition()
        self._is_closed = False
        self._scheduler: Scheduler | None = None
        self._mark: int | None = None
        self._topic: str | None = None  # of what is being answered
        self._thread = threading.Thread(target=self._serve, name=name)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether its thread still runs."""
        return self._thread.is_alive()

    def ask(
        self,
        topic: str,
        question: Callable[[Scheduler], T],
        *,
        answer: Callable[[T], None],
        refused: Callable[[EdgecronError], None],
    ) -> None:
        """Ask; `answer` or `refused` is called on the screen's thread, unless it is asked anew."""
        with self._bell:
            self._questions[topic] = _Question(question, answer, refused)
            self._bell.notify()

    def break_off(self, topic: str) -> None:
        """End the answering of a question of this topic, as far as it can be ended: where it is,
        neither `answer` nor `refused` is called."""
        with self._bell:
            if self._topic == topic and self._scheduler is not None:
                self._scheduler.interrupt()

    def close(self) -> None:
        """End the thread; a question that is being answered is broken off. Bounded."""
        with self._bell:
            self._is_closed = True
            self._questions.clear()
            scheduler = self._scheduler
            self._bell.notify()
        if scheduler is not None:
            scheduler.interrupt()
        if self._thread.ident is not None:  # else it was never started
            self._thread.join(_JOIN_S)

    def _serve(self) -> None:
        try:
            while (question := self._next()) is not None:
                self._look()  # A database that was replaced would go on answering.
                self._answer(question)
                with self._bell:
                    self._topic = None
        finally:
            self._let_go()

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

    def _answer(self, question: _Question) -> None:
        try:
            found = question.ask(self._open())
        except QueryInterrupted:
            return  # It was broken off.
        except EdgecronError as error:
            self._let_go()
            self._deliver(partial(question.refused, error))
        else:
            self._deliver(partial(question.answer, found))

    def _look(self) -> None:
        """Tell that the database was changed by others, or has become another one."""
        if self._changed is None or self._scheduler is None:
            return
        try:
            mark = self._scheduler.change_mark()
        except EdgecronError:
            self._let_go()
            mark = None  # What is wrong is told by the question that follows.
        if mark != self._mark:
            self._mark = mark
            self._deliver(self._changed)

    def _open(self) -> Scheduler:
        if self._scheduler is None:
            self._scheduler = self._opened()
            self._mark = self._scheduler.change_mark()
        return self._scheduler

    def _let_go(self) -> None:
        scheduler, self._scheduler = self._scheduler, None
        if scheduler is not None:
            scheduler.close()
