"""Text for people: cleaned, fitted, and an engine's events as lines."""

from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime

import pytest

from edgecron.base.safetext import clean
from edgecron.cli.event_lines import as_json, logfmt, readable
from edgecron.cli.output import table
from edgecron.engine.events import Event, EventKind
from edgecron.model.choices import Status
from edgecron.model.options import Policies
from edgecron.store.contract import Subject
from edgecron.tui.themes import STATUS_GLYPHS
from edgecron.views.json_objects import execution_object
from edgecron.views.phrases import display_width
from tests.support.story import Story

AT_MS = 1_795_161_845_000  # 2026-11-20T08:04:05Z
NOW = datetime(2026, 11, 20, 8, 4, 5, tzinfo=UTC)


def event(kind: EventKind, **details: object) -> Event:
    return Event(at_ms=AT_MS, kind=kind, execution_id=41, schedule="backup", details=details)


@pytest.mark.failure(72)
@pytest.mark.parametrize(
    "text",
    ["\x1b[2J", "\x1b]52;c;aGk=\x07", "\x9b31m", "a\rb", "a\bb", "\u202egpj.exe", "\u2028", "\0"],
)
def test_nothing_that_a_terminal_obeys_is_let_through(text: str) -> None:
    shown = clean(f"<{text}>")

    assert shown.isprintable()
    assert shown != f"<{text}>"


def test_letters_of_every_language_are_let_through() -> None:
    assert clean("Grüße, 日本, 🎉") == "Grüße, 日本, 🎉"
    assert clean("a\nb\tc", keep="\n\t") == "a\nb\tc"


def test_a_table_gives_way_in_its_flexible_columns() -> None:
    lines = table(
        ("name", "job"),
        [("backup", "0 2 * * * and more"), ("日本", "x")],
        is_colored=False,
        flexible=(1,),
        width=18,
    )

    assert [display_width(line) for line in lines] == [11, 18, 9]
    assert lines[1].endswith("…")


def test_a_column_gives_way_as_far_as_it_may_and_the_next_one_then() -> None:
    lines = table(
        ("name", "job"),
        [("n" * 30, "w" * 30)],
        is_colored=False,
        flexible=((0, 20), (1, 12), (0, 10)),
        width=30,
    )

    assert lines[1].split() == ["n" * 15 + "…", "w" * 11 + "…"]


def test_where_there_is_no_room_a_row_is_a_block() -> None:
    lines = table(
        ("kind", "name", "job", "note", "plan_at"),
        [("+", "backup", "tar czf -v -f /b/home.tgz", "", "日本語日本語日本語日本")],
        is_colored=False,
        flexible=(2,),
        title=1,
        width=24,
    )

    assert lines == [
        "+ backup",
        "  job   tar czf -v -f",
        "        /b/home.tgz",
        "  plan  日本語日本語日本",
        "        語日本",
    ]


def test_marks_on_letters_take_no_column() -> None:
    assert display_width("e\u0301") == 1
    assert display_width("ที่นี่") == 2
    assert display_width("\u1112\u1161\u11ab") == 2


@pytest.mark.failure(72)
def test_a_table_cleans_its_cells_before_it_colours_them() -> None:
    [_, line] = table(("name",), [("\x1b[31mred",)], is_colored=True, styles=[("green",)])

    assert line == "\x1b[32m\\x1b[31mred\x1b[0m"


def test_a_cell_is_one_line() -> None:
    assert table(("job",), [("a\tb\nc",)], is_colored=False) == ["JOB", "a b c"]


def test_a_line_for_people_is_local_and_says_why() -> None:
    line = readable(zone=UTC, is_colored=False)

    ended = line(event(EventKind.ENDED, status="failed", reason="exit", exit_code=3,
                       duration_ms=1200, error_msg="exit code 3"))  # fmt: skip
    skipped = line(event(EventKind.SKIPPED, reason="misfire", missed_count=14))

    assert ended.startswith("08:04:05  ✗ backup  ")
    assert " ".join(ended.split()[3:]) == "failed run 41 1.2s exit code 3"
    assert "missed 14 times" in skipped


@pytest.mark.parametrize(
    ("seen", "status"),
    [
        (event(EventKind.QUEUED), Status.QUEUED),
        (event(EventKind.REQUEUED), Status.QUEUED),
        (event(EventKind.STARTED), Status.RUNNING),
        (event(EventKind.ADOPTED), Status.RUNNING),
        (event(EventKind.ENDED, status="success", duration_ms=5), Status.SUCCESS),
        (event(EventKind.ENDED, status="failed", reason="exit", duration_ms=5), Status.FAILED),
        (event(EventKind.SKIPPED, reason="overlap"), Status.SKIPPED),
        (event(EventKind.CANCELLED, reason="request"), Status.CANCELLED),
        (event(EventKind.ENDED, status="interrupted", reason="lost"), Status.INTERRUPTED),
    ],
)
def test_a_line_has_the_glyph_that_the_dashboard_shows(seen: Event, status: Status) -> None:
    shown = readable(zone=UTC, is_colored=False)(seen)

    assert shown.split()[1] == STATUS_GLYPHS[status.value][0]


@pytest.mark.parametrize(
    ("kind", "sign"),
    [
        (EventKind.PRUNED, "•"),
        (EventKind.SUPERVISOR_WELL, "•"),
        (EventKind.CLOCK_UNTRUSTED, "!"),
        (EventKind.SUPERVISOR_TROUBLE, "✗"),
        (EventKind.BROKEN, "✗"),
    ],
)
def test_an_event_of_no_run_has_the_glyph_of_its_severity(kind: EventKind, sign: str) -> None:
    details = {"known_ms": AT_MS} if kind is EventKind.CLOCK_UNTRUSTED else {}

    shown = readable(zone=UTC, is_colored=False)(event(kind, **details))

    assert shown.split()[1] == sign


def test_a_long_check_of_stored_times_is_told_at_its_begin_and_end() -> None:
    line = readable(zone=UTC, is_colored=False)

    begun = line(event(EventKind.CHECKING_TIMES, checked_percent=12))
    ended = line(event(EventKind.TIMES_CHECKED, changed=12_345, took_s=5.7))

    assert begun.endswith("by the clock and the zones: 12 % so far")
    assert ended.endswith("12,345 changed, in 5.7s")


def test_a_line_for_logs_begins_with_its_time() -> None:
    line = logfmt(event(EventKind.ENDED, status="failed", reason="timeout", duration_ms=30_000))

    assert line == (
        "ts=2026-11-20T08:04:05Z event=ended run=41 schedule=backup status=failed reason=timeout"
        " duration_ms=30000"
    )


def test_a_line_for_machines_is_one_json_object() -> None:
    subject = Subject(schedule_id=7, priority=10, next_run_ms=AT_MS + 60_000)
    started = event(EventKind.STARTED, plan_ms=AT_MS)._replace(subject=subject)

    assert json.loads(as_json(started)) == {
        "ts": "2026-11-20T08:04:05Z",
        "level": "info",
        "msg": "backup: started, run 41",
        "component": "run",
        "event": "started",
        "job_name": "backup",
        "run_id": 41,
        "schedule_id": 7,
        "priority": 10,
        "next_run_at": "2026-11-20T08:05:05Z",
        "run": 41,
        "schedule": "backup",
        "plan_at": "2026-11-20T08:04:05Z",
    }


def test_both_forms_of_a_log_have_the_keys_of_a_run_in_the_api(story: Story) -> None:
    retry = Policies(retries=1, retry_delay_s=60)
    needs = Policies(needs=("success:backup:1h",), needs_deadline_s=3600)
    story.add("backup", "@hourly", code=1, policies=retry)
    story.add("report", "@daily", policies=needs)
    story.after_s(4 * 3600)
    story.after_s(3600)
    keys = execution_object(story.runs("backup")[0]).keys() | {"waits_for"}

    told = [one for one in story.world.events if one.execution_id is not None]

    for one in told:
        words = [word.partition("=")[0] for word in shlex.split(logfmt(one))]
        assert words[:4] == ["ts", "event", "run", "schedule"]
        assert set(words[4:]) <= keys
        found = json.loads(as_json(one))
        assert next(iter(found)) == "ts"
        assert set(words) <= found.keys()
    seen = {key for one in told for key in json.loads(as_json(one))}
    assert seen >= {"status", "reason", "exit_code", "duration_ms", "error_msg"}
    assert seen >= {"plan_at", "due_at", "missed_from_at", "waiting_for", "wait_until"}


@pytest.mark.parametrize(
    ("kind", "details", "level", "message"),
    [
        (EventKind.ENDED, {"status": "success", "duration_ms": 1200}, "info",
         "backup: success, run 41, 1.2s"),
        (EventKind.ENDED, {"status": "failed", "reason": "exit", "error_msg": "exit code 3"},
         "error", "backup: failed, run 41, exit code 3"),
        (EventKind.SKIPPED, {"reason": "misfire", "missed_count": 14}, "warning",
         "backup: skipped, run 41, missed 14 times"),
        (EventKind.BROKEN, {"error_msg": "no cron"}, "error", "backup: broken, run 41, no cron"),
    ],
)  # fmt: skip
def test_a_line_for_machines_says_how_bad_it_is(
    kind: EventKind, details: dict[str, object], level: str, message: str
) -> None:
    found = json.loads(as_json(event(kind, **details)))

    assert (found["level"], found["msg"]) == (level, message)


@pytest.mark.parametrize(
    ("kind", "details", "component", "message"),
    [
        (EventKind.ENGINE_STOPPED, {"runs": 1}, "engine",
         "engine: stopped, 1 run continues; the next engine adopts it"),
        (EventKind.DATABASE_TROUBLE, {"error_msg": "locked"}, "store",
         "engine: database trouble, locked"),
        (EventKind.PRUNED, {"runs": 1200}, "retention", "engine: pruned, 1,200 runs"),
        (EventKind.CLOCK_TRUSTED, {}, "clock", "engine: clock trusted, runs are no longer held"),
    ],
)  # fmt: skip
def test_a_line_for_machines_names_a_part_of_edgecron(
    kind: EventKind, details: dict[str, object], component: str, message: str
) -> None:
    found = json.loads(as_json(Event(at_ms=AT_MS, kind=kind, details=details)))

    assert (found["component"], found["msg"]) == (component, message)
    assert not {"schedule_id", "run_id", "job_name"} & found.keys()


@pytest.mark.failure(72)
def test_no_line_of_a_log_lets_an_escape_sequence_through() -> None:
    hostile = event(EventKind.ENDED, status="failed", error_msg='\x1b]0;x\x07 "a" \n b=c')

    for line in (logfmt(hostile), as_json(hostile), readable(zone=UTC, is_colored=False)(hostile)):
        assert line.isprintable()


def test_a_line_of_a_skipped_run_fits_eighty_columns() -> None:
    line = readable(zone=UTC, is_colored=False)(event(EventKind.SKIPPED, reason="overlap"))

    assert "earlier run active" in line
    assert display_width(line) <= 76  # with a run of four more digits still within
