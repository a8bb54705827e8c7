"""What functions report while they run: how far they are, and what is to be remembered."""

from __future__ import annotations

import json
import select
import threading
from collections.abc import Iterator, Mapping

import pytest

from edgecron.base.clock import SystemClock
from edgecron.base.errors import Conflict, InvalidInput
from edgecron.model.choices import Reason, Status
from edgecron.model.run import MOST_STATE_KEYS, Progress, Reported, progress_text, read_progress
from edgecron.supervisor import calls
from edgecron.supervisor.callable_runner import CallableRunner, Function
from edgecron.supervisor.calls import Call, ReadState, StateChanges
from tests.supervisor.test_runner_callables import BOUND_S, claim, collect_all, run

REMEMBERED = {7: {"cursor": "41", "seen": '["a"]'}}


@pytest.fixture
def registry() -> dict[str, Function]:
    return {}


@pytest.fixture
def asked() -> list[int]:
    """Of which schedules the state was read."""
    return []


@pytest.fixture
def runner(registry: Mapping[str, Function], asked: list[int]) -> Iterator[CallableRunner]:
    def read_state(schedule_id: int) -> Mapping[str, str]:
        asked.append(schedule_id)
        return REMEMBERED.get(schedule_id, {})

    runner = CallableRunner(registry, clock=SystemClock(), read_state=read_state)
    yield runner
    runner.close()


def is_told(runner: CallableRunner) -> bool:
    """Whether somebody who waits for the runner is woken now."""
    return bool(select.select([runner.fileno()], [], [], 0)[0])


# State.


def test_a_function_that_succeeds_has_its_changes_of_state_with_its_end(
    runner: CallableRunner, registry: dict[str, Function], asked: list[int]
) -> None:
    seen = []

    def report(call: Call) -> None:
        seen.append(dict(call.state))
        call.set_state("cursor", "42")
        call.delete_state("seen")
        call.delete_state("never")
        seen.append(dict(call.state))

    registry["report"] = report

    outcome = run(runner, claim("report"))

    assert (outcome.status, outcome.error_msg) == (Status.SUCCESS, None)
    assert outcome.state == {"cursor": "42", "seen": None, "never": None}
    assert seen == [REMEMBERED[7], {"cursor": "42"}]
    assert asked == [7]


def test_a_function_that_needs_no_state_reads_none(
    runner: CallableRunner, registry: dict[str, Function], asked: list[int]
) -> None:
    registry["report"] = lambda call: None

    outcome = run(runner, claim("report"))

    assert (outcome.state, asked) == (None, [])


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_function_that_does_not_succeed_changes_no_state(
    runner: CallableRunner, registry: dict[str, Function], is_stopped: bool
) -> None:
    def report(call: Call) -> None:
        call.set_state("cursor", "42")
        if is_stopped:
            call.stop_reason = Reason.REQUEST
        raise ConnectionError("plc1 is away")

    registry["report"] = report

    outcome = run(runner, claim("report"))

    assert outcome.status is (Status.CANCELLED if is_stopped else Status.FAILED)
    assert outcome.state is None


def test_a_state_that_can_not_be_read_fails_the_function_that_needs_it(
    runner: CallableRunner, registry: dict[str, Function]
) -> None:
    def read(schedule_id: int) -> Mapping[str, str]:
        raise OSError("no disk")

    registry["report"] = lambda call: call.state["cursor"]
    failing = CallableRunner(registry, clock=SystemClock(), read_state=read)

    outcome = run(failing, claim("report"))

    failing.close()
    assert (outcome.status, outcome.error_msg) == (Status.FAILED, "OSError: no disk")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("", "1", "state key is 0 characters long"),
        ("k" * 129, "1", "state key is 129 characters long, expected 1 to 128"),
        ("a\nb", "1", "control characters"),
        ("\ud800", "1", "control characters"),
        ("a", "{", "the state 'a' is not JSON"),
        ("a", "NaN", "the state 'a' is not JSON"),
        ("a", f'"{"x" * 65_535}"', "65537 bytes long, expected at most 65536"),
    ],
)
def test_a_state_that_could_not_be_kept_is_refused_when_it_is_set(
    key: str, value: str, words: str
) -> None:
    call = Call(claim("report"), clock=SystemClock())

    with pytest.raises(InvalidInput, match=words):
        call.set_state(key, value)

    assert call.close_state() is None


def test_a_state_has_a_thousand_keys_at_most() -> None:
    full = {str(number): "1" for number in range(MOST_STATE_KEYS)}
    call = Call(claim("report"), clock=SystemClock(), read_state=lambda schedule_id: full)

    call.set_state("0", "2")
    with pytest.raises(InvalidInput, match="has 1000 keys, expected at most 1000"):
        call.set_state("one more", "1")
    call.delete_state("1")
    call.set_state("one more", "1")

    assert call.close_state() == {"0": "2", "1": None, "one more": "1"}
    assert len(full) == MOST_STATE_KEYS, "what was read is not ours"


def test_a_thread_that_a_run_leaves_behind_is_told_that_its_state_is_kept_no_more(
    runner: CallableRunner, registry: dict[str, Function]
) -> None:
    calls: list[Call] = []
    registry["report"] = calls.append

    run(runner, claim("report"))

    with pytest.raises(Conflict, match="the run has ended"):
        calls[0].set_state("cursor", "42")
    calls[0].report_progress(0.5)
    assert runner.take_progress() == []
    assert not is_told(runner)


# Progress.


def test_the_newest_of_many_reports_is_what_is_taken(
    runner: CallableRunner, registry: dict[str, Function]
) -> None:
    gate = threading.Event()
    reported = threading.Event()

    def report(call: Call) -> None:
        for number in range(1000):
            call.report_progress(number / 1000, f"{number} of 1000")
        reported.set()
        assert gate.wait(BOUND_S)

    registry["report"] = report
    runner.start([claim("report")])
    assert reported.wait(BOUND_S)

    first, again = runner.take_progress(), runner.take_progress()

    gate.set()
    collect_all(runner)
    [one] = first
    assert (one.execution_id, one.lease_token) == (1, "lease-1")
    assert read_progress(one.progress) == Progress(fraction=0.999, text="999 of 1000")
    assert again == []


def test_who_takes_progress_is_told_of_it_only_after_a_time_without_any(
    runner: CallableRunner,
) -> None:
    call = Call(claim("report"), clock=SystemClock(), reports=runner.reports)
    runner.reports.open(["lease-1"])
    told = []

    call.report_progress(0.1)
    told.append(is_told(runner))
    runner.collect()  # which takes the byte out
    taken = [len(runner.take_progress())]
    call.report_progress(0.2)
    told.append(is_told(runner))
    taken += [len(runner.take_progress()), len(runner.take_progress())]
    call.report_progress(0.2)
    told.append(is_told(runner))
    call.report_progress(0.3)
    told.append(is_told(runner))

    assert told == [True, False, False, True]
    assert taken == [1, 1, 0]


def test_an_end_has_the_last_progress_whether_it_was_taken_or_not(
    runner: CallableRunner, registry: dict[str, Function]
) -> None:
    def report(call: Call) -> None:
        call.report_progress(1.0, "all 30")
        if call.claim.execution_id == 2:
            raise ValueError

    registry["report"] = report
    registry["quiet"] = lambda call: None

    done, failed, quiet = (
        run(runner, claim(name, number))
        for number, name in ((1, "report"), (2, "report"), (3, "quiet"))
    )

    wanted = progress_text(Progress(fraction=1, text="all 30"))
    assert (done.progress, failed.progress, quiet.progress) == (wanted, wanted, None)
    assert runner.take_progress() == []


def test_threads_of_a_run_report_beside_one_another(runner: CallableRunner) -> None:
    call = Call(claim("report"), clock=SystemClock(), reports=runner.reports)
    runner.reports.open(["lease-1"])
    ready = threading.Barrier(4)

    def work(number: int) -> None:
        ready.wait(BOUND_S)
        for step in range(200):
            call.report_progress(step / 200)
            call.set_state(f"{number}.{step}", str(step))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    taken: list[Reported] = []
    for thread in threads:
        thread.join(BOUND_S)
        taken += runner.take_progress()

    assert taken
    assert len(call.close_state() or ()) == 800


def test_the_end_of_a_run_waits_for_no_other_run_that_first_uses_its_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A lock of all runs could be held during a fork, and no run of the child would end.
    ended: list[bool] = []

    def end_another(schedule_id: int, read: ReadState) -> StateChanges:
        other = Call(claim("other"), clock=SystemClock())
        thread = threading.Thread(target=other.close_state, daemon=True)
        thread.start()
        thread.join(2)
        ended.append(not thread.is_alive())
        return StateChanges(schedule_id, read)

    monkeypatch.setattr(calls, "StateChanges", end_another)
    call = Call(claim("report"), clock=SystemClock())
    call.set_state("a", "1")

    assert ended == [True]
    assert call.close_state() == {"a": "1"}


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_progress_that_is_no_fraction_is_refused(fraction: float) -> None:
    call = Call(claim("report"), clock=SystemClock())

    with pytest.raises(InvalidInput, match="expected 0 to 1"):
        call.report_progress(fraction)


@pytest.mark.parametrize(
    ("fraction", "text", "kept"),
    [
        (None, "", (None, "")),
        (0.1 * 3, "copied", (0.3, "copied")),
        (1.0000000000000002, "", (1.0, "")),
        (1, "\x1b[2J\ud800", (1.0, "\\x1b[2J\\ud800")),
        (0.5, "ü" * 300, (0.5, "ü" * 200)),
    ],
)
def test_a_progress_is_kept_short_and_harmless(
    fraction: float | None, text: str, kept: tuple[float | None, str]
) -> None:
    stored = progress_text(Progress(fraction=fraction, text=text))

    found = read_progress(stored)

    assert found is not None
    assert (found.fraction, found.text) == kept
    assert progress_text(found) == stored


@pytest.mark.failure(52)
@pytest.mark.parametrize(
    "stored", ["", "{", "3", "[]", "{}", '{"fraction":7,"text":""}', '{"fraction":1,"text":3}',
    json.dumps({"fraction": 10**400, "text": ""}), "[" * 100_000, '{"fraction":"x","text":""}'],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_a_stored_progress_that_makes_no_sense_is_none(stored: str) -> None:
    assert read_progress(stored) is None
