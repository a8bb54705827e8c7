"""Lines that outlast their server: what is only read is asked again until somebody answers it, and
what changes something where it surely was not heard."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from edgecron.base.errors import ServerLost, ServerUnheard

if TYPE_CHECKING:
    from edgecron.client.remote_answers import Reply
    from edgecron.client.remote_lines import Line, Lines
    from edgecron.client.resources import Request

_FIRST_PAUSE_S = 0.25
_LAST_PAUSE_S = 5.0


class PatientLines:
    """Lines to a server that may end and come back, once it has answered for the first time.

    `tell` is told once when it is lost, and once when it answers again. `is_patient` says whether
    it is waited for still. For one thread.
    """

    def __init__(
        self,
        lines: Lines,
        *,
        tell: Callable[[str], object],
        is_patient: Callable[[], bool] = lambda: True,
    ) -> None:
        self.place = lines.place
        self._lines = lines
        self._tell = tell
        self._is_patient = is_patient
        self._has_answered = False
        self._is_lost = False  # and that was told

    def open(self) -> PatientLine:
        return PatientLine(self._lines.open(), self)

    def answered(self, request: Request, ask: Callable[[], Reply]) -> Reply:
        """What is answered at last.

        Raises ServerLost where nobody has ever answered, nobody waits any more, or where it was
        asked to change something, which may have been heard.
        """
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                answer = ask()
            except ServerLost as error:
                may_be_done = request.is_write and not isinstance(error, ServerUnheard)
                if may_be_done or not self.is_waited_for(error.message):
                    raise
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LAST_PAUSE_S)
                continue
            self._has_answered = True
            if self._is_lost:
                self._tell(f"{self.place} answers again")
                self._is_lost = False
            return answer

    def is_waited_for(self, loss: str) -> bool:
        """Whether a server is waited for that was lost so; it is told once."""
        if not (self._has_answered and self._is_patient()):
            return False
        if not self._is_lost:
            self._tell(f"{loss}; waiting until it is back")
        self._is_lost = True
        return True


class PatientLine:
    """A Line over which an answer comes, be it late."""

    def __init__(self, line: Line, lines: PatientLines) -> None:
        self._line = line
        self._lines = lines
        self._begun: Request | None = None

    def ask(self, request: Request) -> Reply:
        return self._lines.answered(request, lambda: self._line.ask(request))

    def begin(self, request: Request) -> None:
        self._begun = request
        try:
            self._line.begin(request)
        except ServerLost:
            return  # There is nothing to wait for: `finish` is next, and asks.

    def fileno(self) -> int | None:
        return self._line.fileno()

    def finish(self, *, is_late: bool = False) -> Reply:
        try:
            return self._line.finish(is_late=is_late)
        except ServerLost:
            if self._begun is None:
                raise
            return self.ask(self._begun.without_wait())

    def interrupt(self) -> None:
        self._line.interrupt()

    def is_waited_for(self) -> bool:
        return self._lines.is_waited_for(f"{self._lines.place} does not answer")

    def close(self) -> None:
        self._line.close()
