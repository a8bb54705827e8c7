"""What must hold around the rows: files, processes, and what edgecron says of itself."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.history import History, Refusal
from tests.chaos.rows import is_in_doubt

_NOTICED_MS = 10_000  # a fault that has healed may be noticed so late


def files_are_private(history: History) -> Iterator[str]:
    """I19: nobody else can read what is ours."""
    for path, mode in history.modes.items():
        if mode & 0o077:
            yield f"{path} has mode {mode:04o}"


def nothing_outlives_a_stop(history: History) -> Iterator[str]:
    """I20: under stop or wait no job outlives its engine, and the engine ends within a bound."""
    yield from remarks(history, "I20")


def database_is_whole(history: History) -> Iterator[str]:
    """I21: integrity_check and foreign keys, at the end and whenever it was looked."""
    yield from history.integrity
    yield from remarks(history, "I21")


def doctor_agrees(history: History) -> Iterator[str]:
    """I22: when all has healed, doctor finds nothing wrong."""
    if history.doctor is None:
        yield "doctor gave no answer"
        return
    for finding in history.doctor:
        yield f"{finding['check']}: {finding['message']}"


def copies_are_noticed(history: History) -> Iterator[str]:
    """N30: a copy that runs beside the original says so."""
    yield from remarks(history, "N30")


def verbs_answer(history: History) -> Iterator[str]:
    """VERB: each command line answers within a bound, as documented, without a traceback.

    And what it refuses can't be done: no such thing (3), there already (4), no database (5).
    """
    yield from remarks(history, "VERB")
    for refusal in history.refusals:
        if not _has_reason(refusal, history):
            yield f"ended with {refusal.code}, and nothing was wrong: {refusal.words}"


def _has_reason(refusal: Refusal, history: History) -> bool:
    asked = refusal.asked
    if refusal.code == 5:
        return any(
            trouble.began_ms <= asked.at_ms and asked.began_ms <= trouble.healed_ms + _NOTICED_MS
            for trouble in history.troubles
        )
    # Whoever was to add a guest may have been killed; a run may be one of a copy; and before the
    # first run of a schedule there are no logs.
    is_guest = asked.name.startswith("guest-") and asked.kind != "add"
    is_unsure = is_guest or asked.kind in ("cancel", "look")
    return is_unsure or is_in_doubt(asked, history.troubles)


def engines_speak(history: History) -> Iterator[str]:
    """LOG: no engine or supervisor ends by a defect of its own."""
    yield from remarks(history, "LOG")


def remarks(history: History, number: str) -> Iterator[str]:
    return (remark.text for remark in history.remarks if remark.number == number)
