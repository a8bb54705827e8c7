"""Every invariant of the failure catalogue, by its number, and what judges it here."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.chaos import bodies, rows, surroundings, times
from tests.chaos.history import History, Violation

Check = Callable[[History], Iterator[str]]

CHECKS: dict[str, Check] = {
    "I1": rows.one_success,
    "I2": rows.unique_attempts,
    "I3": bodies.started_once,
    "I4": bodies.one_body_of_a_fire,
    "I5": bodies.effects_have_rows,
    "I6": bodies.rows_agree,
    "I7": bodies.no_overlap,
    "I8": rows.final_rows_stay,
    "I9": rows.attempts_rise,
    "I10": rows.rows_stay,
    "I11": times.next_times_rise,
    "I12": rows.attempts_within_bound,
    "I13": rows.reasons_given,
    "I14": rows.nothing_active,
    "I15": times.every_time_is_covered,
    "I16": times.full_service_again,
    "I17": times.never_early,
    "I18": times.late_only_near_a_fault,
    "I19": surroundings.files_are_private,
    "I20": surroundings.nothing_outlives_a_stop,
    "I21": surroundings.database_is_whole,
    "I22": surroundings.doctor_agrees,
    # Besides the invariants: rows of the catalogue that show in a storm alone.
    "N30": surroundings.copies_are_noticed,
    "VERB": surroundings.verbs_answer,
    "LOG": surroundings.engines_speak,
}
# What a storm of real processes can't do, and what is not judged therefore.
NOT_CHECKED = {
    "clock": "the machine's clock is not set: I11, I15 and I17 are judged by a clock that goes on",
    "reboot": "the machine is not started anew: I6 meets no other boot id",
    "power": "nothing written is lost: that is what tests/powerloss is for",
}


def judge(history: History) -> list[Violation]:
    """Every violation, in the order of the invariants."""
    return [
        Violation(number=number, text=text)
        for number, check in CHECKS.items()
        for text in check(history)
    ]
