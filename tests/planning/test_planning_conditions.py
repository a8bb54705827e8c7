"""What the answers of conditions mean to a run with `--while`."""

from __future__ import annotations

import pytest

from edgecron.model.choices import WhileLost
from edgecron.model.conditions import Condition, read_condition
from edgecron.planning.admission import LOST_MS, WatchedRun, WhileAct, judge_while

NOW_MS = 1_000_000
AC_POWER = read_condition("ac-power")
RUN = WatchedRun("token", NOW_MS)
UNMET = RUN._replace(unmet_since_ms=NOW_MS - LOST_MS)


def judge(
    run: WatchedRun, *answers: bool | None, lost: WhileLost = WhileLost.SUSPEND
) -> tuple[WatchedRun, WhileAct, Condition | None]:
    return judge_while(run, [(AC_POWER, one) for one in answers], lost=lost, now_ms=NOW_MS)


@pytest.mark.parametrize("answers", [(True,), (None,), (True, None)])
def test_a_run_whose_conditions_hold_or_are_unknown_continues(
    answers: tuple[bool | None, ...],
) -> None:
    assert judge(RUN, *answers)[1:] == (WhileAct.NOTHING, None)


def test_a_condition_is_lost_only_after_a_few_seconds() -> None:
    first, act, _ = judge(RUN, True, False)
    assert act is WhileAct.NOTHING
    assert first.check_at_ms == NOW_MS + LOST_MS
    assert judge(UNMET, True, False)[1:] == (WhileAct.SUSPEND, AC_POWER)
    assert judge(UNMET, False, lost=WhileLost.END)[1:] == (WhileAct.END, AC_POWER)


def test_an_unknown_answer_does_not_forget_how_long_a_condition_was_unmet() -> None:
    assert judge(UNMET, None)[0].unmet_since_ms == UNMET.unmet_since_ms
    assert judge(UNMET, True)[0].unmet_since_ms is None


def test_a_suspended_run_continues_only_if_every_condition_holds() -> None:
    suspended = RUN._replace(is_suspended=True)

    assert judge(suspended, True, True)[1] is WhileAct.RESUME
    assert judge(suspended, True, None)[1] is WhileAct.SUSPEND_AGAIN
    again, act, _ = judge(suspended, False)
    assert act is WhileAct.SUSPEND_AGAIN
    assert again.is_suspended
    assert again.pause_ms == 2 * suspended.pause_ms
