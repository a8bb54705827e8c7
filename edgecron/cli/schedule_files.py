"""`daemon --schedules FILE`: documents applied when the daemon starts, and again on HUP."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from edgecron.base.clock import SystemClock
from edgecron.base.errors import EdgecronError, InvalidDocument, InvalidInput
from edgecron.base.files import find_weakness, is_checked, read_file
from edgecron.cli.plans import problem_words
from edgecron.cli.session import Session
from edgecron.client.protocol import Client
from edgecron.engine.events import Event, EventKind, Report
from edgecron.formats.document import MOST_BYTES, read_document
from edgecron.formats.document_tables import APPLY, PRUNABLE, Action, Document, Step
from edgecron.views.changes import change_line, mask

_JOIN_S = 10.0
_KINDS = {
    Action.CREATE: EventKind.SCHEDULE_CREATED,
    Action.CHANGE: EventKind.SCHEDULE_CHANGED,
}


class ScheduleFiles:
    """The documents of `--schedules`, read once at the start.

    Raises InvalidDocument with all problems.
    """

    def __init__(self, cli: Session, paths: Sequence[str]) -> None:
        self._cli = cli
        self._paths = paths
        self._clock = SystemClock()
        with self._problems_shown():
            self._documents = _read(paths)
        for path, document in self._documents.items():
            for note in document.notes or ():
                cli.warn(f"{path}: {note}")

    def apply(self, report: Report) -> None:
        """Apply the documents for the first time. Raises InvalidDocument before any change."""
        with self._problems_shown():
            _apply(self._cli.client(), self._documents, report=report, clock=self._clock)

    def applying_on_hup(self, report: Report) -> AbstractContextManager[Callable[[], None]]:
        """Within the context, the yielded function applies the files again.

        A signal handler can call it.
        """
        open_client = self._cli.opener()

        def apply_again() -> None:
            try:
                documents = _read(self._paths)
                with open_client(True) as client:
                    _apply(client, documents, report=report, clock=self._clock)
            except EdgecronError as error:
                _report_refusal(error, report=report, at_ms=self._clock.now_ms())

        return _on_demand(apply_again)

    @contextmanager
    def _problems_shown(self) -> Iterator[None]:
        """Show each of several problems on stderr, with its file and line."""
        try:
            yield
        except InvalidDocument as error:
            if len(error.problems) > 1 and not self._cli.is_json:
                for problem in error.problems:
                    self._cli.say(_words_of(dict(problem)))
            raise


def _read(paths: Sequence[str]) -> dict[str, Document]:
    """Read the documents by path. Raises InvalidDocument with all problems.

    Relative times are refused: each start and each HUP would move them.
    """
    documents: dict[str, Document] = {}
    problems: list[dict[str, Any]] = []
    for path in dict.fromkeys(os.path.realpath(path) for path in paths):
        try:
            _check_file(Path(path))
            content = read_file(path, most_bytes=MOST_BYTES)
            documents[path] = read_document(content, is_portable=True)
        except EdgecronError as error:
            problems += _problems_of(path, error)
    problems += _find_twins(documents)
    if problems:
        raise _refusal(problems)
    return documents


def _check_file(path: Path) -> None:
    """Raise InvalidInput for a file that could block a read, or that others than root can change.

    The daemon reads a file again long after a person has looked at it.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InvalidInput(
            f"file {str(path)!r} is not a regular file",
            hint="name a regular file, which the daemon can read again on HUP",
        )
    weakness = find_weakness(path) if is_checked() else None
    if weakness is not None:
        raise InvalidInput(
            f"file {str(path)!r} can be changed by other users: {weakness.words}",
            hint=f"these users could choose the commands that run: {weakness.mend}",
        )


def _apply(
    client: Client, documents: dict[str, Document], *, report: Report, clock: SystemClock
) -> None:
    """Apply each document whole, and report its plan. Raises InvalidDocument before any change."""
    plans: list[tuple[str, tuple[Step, ...]]] = []
    problems: list[dict[str, Any]] = []
    for path, document in documents.items():
        try:
            plans.append((path, client.plan_document(document, origin=APPLY + path)))
        except EdgecronError as error:
            problems += _problems_of(path, error)
    if problems:
        raise _refusal(problems)
    for path, steps in plans:
        client.apply(steps, origin=APPLY + path)
        for event in _plan_events(path, steps, at_ms=clock.now_ms()):
            report(event)


def _report_refusal(error: EdgecronError, *, report: Report, at_ms: int) -> None:
    """Report why the documents were not applied again, one event for each problem."""
    problems = error.problems if isinstance(error, InvalidDocument) else ()
    for problem in problems or [{"file": None, "line": None, "message": error.message}]:
        named = {key: problem.get(key) for key in ("file", "line")}
        details = {key: value for key, value in named.items() if value is not None}
        details["error_msg"] = problem["message"]
        name = problem.get("schedule")
        report(Event(at_ms, EventKind.SCHEDULES_REFUSED, schedule=name, details=details))


@contextmanager
def _on_demand(apply: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Within the context, each call of the yielded function runs `apply` on a separate thread.

    A signal handler can call it.
    """
    # Of all queues, only the calls of this one may be interrupted by a signal.
    wanted: SimpleQueue[bool] = SimpleQueue()

    def work() -> None:
        while wanted.get():
            apply()

    def ask() -> None:
        if wanted.empty():  # Else a waiting request will read the files.
            wanted.put(True)

    thread = threading.Thread(target=work, name="schedule-files")
    thread.start()
    try:
        yield ask
    finally:
        wanted.put(False)
        thread.join(_JOIN_S)


def _plan_events(path: str, steps: Sequence[Step], *, at_ms: int) -> Iterator[Event]:
    for step in steps:
        kind = _KINDS.get(step.action)
        if kind is None:
            continue
        details: dict[str, object] = {"file": path}
        if step.changes:
            details["changes"] = ", ".join(map(change_line, mask(step.changes)))
        if step.note is not None:
            details["note"] = step.note
        yield Event(at_ms, kind, schedule=step.name, details=details)
    left = [step.name for step in steps if step.note == PRUNABLE]
    actions = [step.action for step in steps]
    details = {
        "file": path,
        "created": actions.count(Action.CREATE),
        "changed": actions.count(Action.CHANGE),
        "unchanged": actions.count(Action.KEEP),
    }
    if left:
        details["no_longer_in_file"] = ", ".join(left)
    yield Event(at_ms, EventKind.SCHEDULES_APPLIED, details=details)


def _problems_of(path: str, error: EdgecronError) -> list[dict[str, Any]]:
    problems = error.problems if isinstance(error, InvalidDocument) else ()
    if problems:
        return [{"file": path, **problem} for problem in problems]
    nowhere = {"schedule": None, "key": None, "line": None}
    return [{"file": path, **nowhere, "message": error.message, "hint": error.hint}]


def _find_twins(documents: dict[str, Document]) -> Iterator[dict[str, Any]]:
    """Yield a problem for each schedule that two files define: each file would undo the other."""
    files: dict[str, str] = {}
    for path, document in documents.items():
        for wanted in document.wanted:
            first = files.setdefault(wanted.spec.name, path)
            if first != path:
                yield {
                    "file": path,
                    "schedule": wanted.spec.name,
                    "key": None,
                    "line": None,
                    "message": f"file {first!r} has a schedule of this name, too",
                    "hint": "write it in one of the files only",
                }


def _refusal(problems: list[dict[str, Any]]) -> InvalidDocument:
    if len(problems) == 1:
        [problem] = problems
        words = _words_of({**problem, "hint": None})
        return InvalidDocument(
            f"no schedule file is applied: {words}", hint=problem["hint"], problems=problems
        )
    return InvalidDocument(
        f"{len(problems)} errors in the schedule files: no file is applied",
        problems=problems,
    )


def _words_of(problem: dict[str, Any]) -> str:
    """Put a problem into words, with its file."""
    words = problem_words(problem, file=problem["file"])
    return words if problem["file"] in words else f"{problem['file']}: {words}"
