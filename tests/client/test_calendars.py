"""Calendars that schedules except: when they are read, and what happens if they can't be."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from edgecron.base.bundle import hint_for_extra
from edgecron.base.errors import InvalidInput
from edgecron.base.units import from_ms
from edgecron.base.values import replace
from edgecron.base.window_texts import source_of
from edgecron.cli import run
from edgecron.client import Client
from edgecron.client.calendars import renew_all
from edgecron.client.doctor_schedules import check_schedules
from edgecron.client.side_processes import start_reader
from edgecron.engine.step import Hosting
from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from edgecron.model.options import Policies
from edgecron.model.schedule import ScheduleSpec
from tests.support.clock import FakeClock
from tests.support.story import START_MS, Story

HOUR_MS = 3_600_000
DAY = "BEGIN:VEVENT\nDTSTART;VALUE=DATE:{day}\nEND:VEVENT\n"


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path / "story.db")


@pytest.fixture
def calendar(tmp_path: Path) -> Path:
    """A file with one day: the second of the story, 2026-03-09."""
    path = tmp_path / "vacation.ics"
    write(path, "20260309")
    return path


def write(path: Path, *days: str) -> None:
    body = "".join(DAY.format(day=day) for day in days)
    path.write_text(f"BEGIN:VCALENDAR\n{body}END:VCALENDAR\n")


def add(story: Story, calendar: Path | str) -> None:
    story.add("backup", "0 22 * * *", policies=Policies(except_days=(str(calendar),)))


def days_of(story: Story) -> str:
    [text] = story.client.schedule("backup").spec.policies.except_days
    return text.partition(" = ")[2]


def next_days(story: Story) -> list[str]:
    fires = story.client.outlook("backup", upcoming=2).upcoming
    return [fire.plan_at.strftime("%m-%d") for fire in fires]


def test_a_file_is_read_when_the_schedule_is_written(story: Story, calendar: Path) -> None:
    add(story, calendar)

    assert days_of(story) == "2026-03-09"
    assert next_days(story) == ["03-08", "03-10"]
    [excluded] = story.client.outlook("backup", upcoming=2).excluded
    assert from_ms(excluded.from_ms).strftime("%m-%d %H:%M") == "03-09 22:00"


def test_a_changed_file_is_read_again_and_the_schedule_stays_that_of_its_file(
    story: Story, calendar: Path
) -> None:
    add(story, calendar)
    unchanged = renew_all(story.client)
    write(calendar, "20260308", "20260310")

    assert (unchanged, renew_all(story.client)) == ([], ["backup"])
    assert next_days(story) == ["03-09", "03-11"]
    [change, made] = story.client.changes("backup")
    assert (change.origin, made.origin) == ("calendar", "python")
    assert [(one.key, one.old, one.new) for one in change.changes] == [
        ("except", f"{calendar}: 2026-03-09", f"{calendar}: 2026-03-08, 2026-03-10")
    ]
    assert story.client.store.find_origins() == {"backup": "python"}


def test_a_missing_file_refuses_a_new_schedule(story: Story, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"gone\.ics' can't be read: there is no such file"):
        add(story, tmp_path / "gone.ics")
    with pytest.raises(InvalidInput, match="relative path"):
        add(story, "gone.ics")
    assert story.client.standings() == []


def test_the_days_of_a_file_that_is_gone_stay_and_doctor_says_so(
    story: Story, calendar: Path
) -> None:
    add(story, calendar)
    calendar.unlink()

    assert renew_all(story.client) == []
    story.client.edit("backup", lambda spec: replace(spec, description="nightly"))
    same = Policies(except_days=(str(calendar),))
    story.client.edit("backup", lambda spec: replace(spec, policies=same))
    [finding] = check_schedules(story.client, [], [], command=str)

    assert next_days(story) == ["03-08", "03-10"]
    assert "there is no such file; the days that were read before still apply" in finding.message


def test_doctor_reports_a_file_that_has_changed_since(story: Story, calendar: Path) -> None:
    add(story, calendar)
    write(calendar, "20260310")
    [finding] = check_schedules(story.client, [], [], command=str)
    assert "backup excepts a calendar that has changed" in finding.message


def test_documents_and_json_name_the_calendar_only(
    story: Story, calendar: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(story, calendar)
    for words in (("export",), ("list", "--json"), ("show", "backup")):
        run([*words, "--db", str(story.client.path)])
        said = capsys.readouterr().out
        assert str(calendar) in said
        assert "2026-03-09" not in said.replace("excluded", "").replace("2026-03-09 22:00", "")


def test_an_engine_starts_the_reader_at_its_start_and_every_hour(
    tmp_path: Path, calendar: Path
) -> None:
    started: list[int] = []
    clock = FakeClock(START_MS)

    def start() -> int:
        started.append(clock.now_ms())
        return os.getpid()  # No child: it has ended.

    story = Story(tmp_path / "story.db", clock=clock, hosting=Hosting(start_reader=start))
    story.after_s(60)
    idle_wake_ms = story.engine.step().wake_ms
    add(story, calendar)
    story.after_s(1)
    wake_ms = story.engine.step().wake_ms
    story.after_s(3600)

    assert idle_wake_ms is None
    assert started == [START_MS + 61_000, START_MS + 61_000 + HOUR_MS]
    assert wake_ms == START_MS + 61_000 + HOUR_MS


def test_the_reader_is_a_process_that_writes_what_has_changed(
    tmp_path: Path, calendar: Path
) -> None:
    with Client(tmp_path / "own.db") as client:
        job = Job(kind=JobKind.COMMAND, argv=("true",))
        policies = Policies(except_days=(str(calendar),))
        spec = ScheduleSpec(name="backup", triggers=("0 0 1 * *",), job=job, policies=policies)
        client.add(spec)
        day = client.now().date() + timedelta(days=60)
        write(calendar, f"{day:%Y%m%d}")

        _, status = os.waitpid(start_reader(client.path), 0)

        [text] = client.schedule("backup").spec.policies.except_days
    assert (status, text) == (0, f"{calendar} = {day:%Y-%m-%d}")


@pytest.mark.needs_package("holidays")
def test_holidays_of_a_part_of_a_country_are_excluded(story: Story) -> None:
    story.add("backup", "0 22 * * *", policies=Policies(except_days=("holidays:DE-BY",)))
    days = days_of(story).split()
    assert {"2026-01-06", "2026-12-25", "2031-12-26"} <= set(days)  # Epiphany is one in Bavaria.
    [text] = story.client.schedule("backup").spec.policies.except_days
    assert source_of(text) == "holidays:DE-BY"


@pytest.mark.needs_package("holidays")
@pytest.mark.parametrize(
    ("source", "message"), [("holidays:XX", "no country 'XX'"), ("holidays:DE-XX", "no part 'XX'")]
)
def test_an_unknown_country_or_part_is_refused(story: Story, source: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        add(story, source)


def test_a_missing_library_is_named_with_its_pip_command(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "holidays", None)
    with pytest.raises(InvalidInput, match="the library holidays is not installed") as caught:
        add(story, "holidays:DE")
    assert caught.value.hint == hint_for_extra("holidays")
