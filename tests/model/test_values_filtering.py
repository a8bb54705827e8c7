"""The filter language of the dashboard."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgecron.base.errors import InvalidInput
from edgecron.model.choices import Cause, Reason, Status
from edgecron.model.filters import STATES, Filter, RunQuestion, parse_filter

FAST = settings(derandomize=True, database=None, deadline=None, max_examples=300)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    name: str = "backup"
    state: str = "active"
    last_status: str | None = None
    group: str | None = None
    job: str = '["restic","backup","/home"]'


NIGHTLY = Keys(name="nightly-Backup", last_status="failed", group="Disks")


def matches(text: str, keys: Keys = NIGHTLY) -> bool:
    return parse_filter(text).matches_schedule(keys)


@pytest.mark.parametrize("text", ["", "   ", "\t\n"])
def test_a_blank_filter_lets_everything_through(text: str) -> None:
    found = parse_filter(text)

    assert found.matches_schedule(NIGHTLY)
    assert found.run_question() == RunQuestion()


@pytest.mark.parametrize(
    "text",
    ["back", "BACK", "nb", "nightly-backup", '"tly-b"', "job:back", "name:nbk", "Schedule:n"],
)
def test_a_word_is_looked_for_in_the_name_its_letters_in_order(text: str) -> None:
    assert matches(text)
    assert not matches(f"!{text}")


@pytest.mark.parametrize("text", ["bn", "backups", "xyz", '"y b"', "kk"])
def test_letters_that_are_not_there_or_not_in_order_do_not_match(text: str) -> None:
    assert not matches(text)


def test_the_first_letters_of_a_field_or_value_suffice_if_no_other_begins_with_them() -> None:
    assert matches("statu:fail gr:disk")
    assert matches("sched:back")
    assert not matches("status:run")


def test_all_terms_must_hold_and_any_value_of_one() -> None:
    assert matches("status:success,failed job:back group:disk state:active")
    assert not matches("status:success,failed job:back group:tape")
    assert not matches("status:success job:back")
    assert matches("job:nothing,nightly")


def test_a_schedule_that_never_ran_has_no_status() -> None:
    assert not matches("status:failed", Keys())
    assert matches("!status:failed", Keys())


def test_of_a_group_any_part_will_do() -> None:
    assert matches("group:ISK")
    assert not matches("group:ds")
    assert not matches("group:disks", Keys())


def test_what_says_nothing_of_schedules_leaves_them_and_is_named() -> None:
    found = parse_filter("cause:manual !reason:exit back")

    assert found.matches_schedule(NIGHTLY)
    assert found.unused_on_schedules == ("cause", "reason")
    assert found.unused_on_runs == ()


def test_what_says_nothing_of_runs_leaves_them_and_is_named() -> None:
    found = parse_filter("state:paused group:disks")

    assert found.run_question() == RunQuestion()
    assert found.unused_on_runs == ("state", "group")
    assert found.unused_on_schedules == ()


def test_a_question_about_runs_names_what_to_include() -> None:
    question = parse_filter(
        "status:failed cause:catch-up,manual reason:exit,none back"
    ).run_question()

    assert question.statuses == (Status.FAILED,)
    assert question.causes == (Cause.CATCH_UP, Cause.MANUAL)
    assert question.reasons == (Reason.EXIT, None)
    assert question.names is not None
    assert question.names.matches_name("Nightly-Backup")
    assert not question.names.matches_name("sync")
    assert not question.is_impossible


def test_not_includes_all_the_others() -> None:
    question = parse_filter("!status:failed !reason:exit").run_question()

    assert set(question.statuses) == set(Status) - {Status.FAILED}
    assert set(question.reasons) == {*Reason, None} - {Reason.EXIT}
    assert question.causes == ()
    assert question.names is None


def test_two_terms_of_one_key_are_what_both_include() -> None:
    both = parse_filter("status:failed,success !status:success").run_question()
    neither = parse_filter("status:failed status:success").run_question()

    assert both.statuses == (Status.FAILED,)
    assert neither.is_impossible


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("stat:failed", "'stat' is not a field to filter by", "did you mean status?"),
        ("jbo:x", "'jbo' is not a field", "did you mean job?"),
        ("zzz:x", "'zzz' is not a field", "known are status, job,"),
        (":x", "'' is not a field", "known are status"),
        ("status:faild", "status is 'faild'", "did you mean failed?"),
        ("!status:s", "status is 's'", "did you mean success?"),
        (
            "state:zzz",
            "state is 'zzz'",
            "state is one of active, paused, broken, vanished",
        ),
        ("status:", "nothing follows 'status:'", "status is one of queued,"),
        ("job:,", "nothing follows 'job:'", "write a part of a name"),
        ("!", "nothing follows '!'", "write a part of a name"),
        ('group:""', "nothing follows 'group:'", "write a part of a group"),
        ('job:"two', "a quote is not closed", 'write "two words"'),
    ],
)
def test_what_is_not_known_is_refused_with_what_was_meant(
    text: str, message: str, hint: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse_filter(text)

    assert message in raised.value.message
    assert hint in (raised.value.hint or "")


def test_what_is_quoted_is_no_key_and_keeps_its_blanks_and_commas() -> None:
    assert parse_filter('"job:a b"').terms[0].values == ("job:a b",)
    assert parse_filter('job:"a, b",c').terms[0].values == ("a, b", "c")


@FAST
@given(st.text(st.sampled_from(list('ab:!," ')) | st.characters(), max_size=30))
def test_any_text_is_a_filter_or_an_invalid_input(text: str) -> None:
    hint: str | None = "none was needed"
    found = Filter()
    try:
        found = parse_filter(text)
    except InvalidInput as error:
        hint = error.hint

    assert hint
    assert found.matches_schedule(NIGHTLY) in (True, False)
    assert found.run_question()


WORDS = st.text("abcdef-1", min_size=1, max_size=4)
SPOKEN = st.one_of(
    WORDS,
    st.builds("job:{},{}".format, WORDS, WORDS),
    st.builds("group:{}".format, WORDS),
    st.builds("status:{}".format, st.sampled_from(list(Status))),
    st.builds("state:{}".format, st.sampled_from(STATES)),
)
SCHEDULES = st.builds(
    Keys,
    name=WORDS,
    state=st.sampled_from(STATES),
    last_status=st.none() | st.sampled_from([status.value for status in Status]),
    group=st.none() | WORDS,
)


@FAST
@given(SPOKEN, SCHEDULES)
def test_not_turns_a_term_around(text: str, keys: Keys) -> None:
    assert matches(text, keys) is not matches(f"!{text}", keys)
    assert matches(text, keys) is matches(f"!!{text}", keys)


@FAST
@given(
    st.sampled_from(["status", "cause", "reason"]),
    st.data(),
)
def test_of_runs_not_is_the_complement(key: str, data: st.DataObject) -> None:
    every = {"status": tuple(Status), "cause": tuple(Cause), "reason": tuple(Reason)}[key]
    some = data.draw(st.lists(st.sampled_from(every), min_size=1, unique=True))
    text = f"{key}:{','.join(one.value for one in some)}"

    plain = included(parse_filter(text), key)
    turned = included(parse_filter(f"!{text}"), key)

    assert plain == set(some)
    assert plain | turned == ({*every, None} if key == "reason" else set(every))
    assert not plain & turned


def included(found: Filter, key: str) -> set[object]:
    question = found.run_question()
    if question.is_impossible:
        return set()
    return set(getattr(question, {"status": "statuses", "cause": "causes"}.get(key, "reasons")))


def test_a_command_is_searched_for_a_part_of_its_words() -> None:
    assert matches('command:"restic backup"')
    assert matches("cmd:HOME")
    assert not matches("command:rsync")
    assert not matches("!command:restic")
    assert parse_filter("command:restic").matches_name("a", job='"restic | tee log"')


def test_durations_and_times_are_a_question_about_runs() -> None:
    noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
    found = parse_filter("took:>5m took:<1h since:noon", read_time=lambda _: noon)
    question = found.run_question()

    assert (question.least_ms, question.most_ms) == (300_000, 3_600_000)
    assert (question.since, question.until) == (noon, None)
    assert found.unused_on_schedules == ("took", "since")
    assert found.unused_on_runs == ()


@pytest.mark.parametrize("text", ["took:5m", "took:>x", "!took:>5m", "!since:noon", "since:"])
def test_bounds_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_filter(text)


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("due:03", "03:00-04:00"),
        ("due:3am", "03:00-04:00"),
        ("due:23", "23:00-24:00"),
        ("due:03:30", "03:30-03:31"),
        ("due:22-05", "22:00-05:00"),
        ('due:"9am-5pm mon-fri"', "09:00-17:00 MON-FRI"),
        ("due:mon", "MON"),
    ],
)
def test_hours_are_read_as_a_window(text: str, window: str) -> None:
    found = parse_filter(f"back {text}")

    assert found.due_windows == (window,)
    assert found.matches_schedule(NIGHTLY)
    assert found.unused_on_schedules == ()
    assert found.unused_on_runs == ("due",)


def test_one_of_several_hours_is_enough() -> None:
    assert parse_filter("due:03,05").due_windows == ("03:00-04:00", "05:00-06:00")


@pytest.mark.parametrize("text", ["due:25", "due:24", "due:late", "due:03:70", "due:9-9"])
def test_hours_that_can_not_be_read_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidInput, match="expected an hour or a window") as refused:
        parse_filter(text)

    assert "due:22-05" in str(refused.value.hint)


def test_hours_are_given_once_and_not_negated() -> None:
    with pytest.raises(InvalidInput, match="due is given twice"):
        parse_filter("due:03 due:mon")
    with pytest.raises(InvalidInput, match="can't be negated"):
        parse_filter("!due:03")
