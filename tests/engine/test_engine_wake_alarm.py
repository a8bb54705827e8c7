"""--wake: the alarm of the real-time clock follows the next run that wants it."""

from __future__ import annotations

from pathlib import Path

from edgecron.engine.step import Hosting
from edgecron.model.options import Policies
from tests.support.story import START_MS, Story

WAKES = Policies(wake=True)


def story_with(tmp_path: Path, alarm: Path) -> Story:
    return Story(tmp_path / "story.db", hosting=Hosting(wake_alarm=alarm))


def test_the_alarm_is_set_a_moment_before_the_next_run_and_moves_with_it(tmp_path: Path) -> None:
    alarm = tmp_path / "wakealarm"
    alarm.write_text("")
    story = story_with(tmp_path, alarm)
    story.add("plain", "every 1m")
    story.add("early", "every 1h", policies=WAKES)
    story.add("later", "every 2h", policies=WAKES)

    story.after_s(0)
    first = alarm.read_text()
    story.after_s(3600)
    second = alarm.read_text()
    story.client.remove("early")
    story.client.remove("later")
    story.after_s(1)

    assert (first, second) == ("+3590", "+3590")
    assert alarm.read_text() == "0"


def test_an_earlier_alarm_of_another_program_stays(tmp_path: Path) -> None:
    alarm = tmp_path / "wakealarm"
    alarm.write_text(str(START_MS // 1000 + 60))
    story = story_with(tmp_path, alarm)
    story.add("early", "every 1h", policies=WAKES)

    story.after_s(0)

    assert alarm.read_text() == str(START_MS // 1000 + 60)


def test_without_such_schedules_no_alarm_is_touched(tmp_path: Path) -> None:
    story = story_with(tmp_path, tmp_path / "missing")
    story.add("plain", "every 1m")

    story.after_s(60)

    assert not (tmp_path / "missing").exists()
    assert "alarm_trouble" not in [event.kind.value for event in story.world.events]


def test_an_alarm_that_can_t_be_set_is_reported_once(tmp_path: Path) -> None:
    story = story_with(tmp_path, tmp_path / "missing")
    story.add("early", "every 1h", policies=WAKES)

    story.after_s(0)
    story.after_s(3600)

    assert [event.kind.value for event in story.world.events].count("alarm_trouble") == 1
