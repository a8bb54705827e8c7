"""How far runs are and what schedules remember, as programs and people ask for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgecron.base.errors import InvalidInput, NotFound
from edgecron.client import Client
from edgecron.model.choices import Status
from edgecron.model.listing import RunChoice
from edgecron.model.run import Execution, Progress
from tests.support.cli import Edgecron
from tests.support.scene import make_scene
from tests.support.story import Story


@pytest.fixture
def running(story: Story) -> Execution:
    """A run that goes on."""
    story.add("copy", "@yearly", lasts_s=600)
    [run] = story.client.run_now("copy")
    story.after_s(1)
    return run


def progress(client: Client, run: Execution) -> Progress | None:
    return client.execution(run.id).progress


def test_a_program_says_how_far_a_run_is(story: Story, running: Execution) -> None:
    before = progress(story.client, running)

    is_on_record = story.client.report_progress(running.id, 0.4, "12 of 30")

    assert (before, is_on_record) == (None, True)
    assert progress(story.client, running) == Progress(fraction=0.4, text="12 of 30")


def test_reports_of_a_run_are_written_once_a_second_at_most(
    story: Story, running: Execution
) -> None:
    written = []
    for number in range(21):
        written.append(story.client.report_progress(running.id, number / 100))
        story.world.clock.advance_ms(100)

    assert [number for number, is_written in enumerate(written) if is_written] == [0, 10, 20]
    assert progress(story.client, running) == Progress(fraction=0.2)


def test_a_run_that_does_not_go_on_is_no_further(story: Story, running: Execution) -> None:
    story.after_s(600)

    is_on_record = story.client.report_progress(running.id, 0.4)

    assert (is_on_record, progress(story.client, running)) == (False, None)
    assert story.client.report_progress(999, 0.4) is False


def test_a_fraction_that_is_none_is_refused(story: Story, running: Execution) -> None:
    with pytest.raises(InvalidInput, match=r"progress is 40\.0, expected 0 to 1"):
        story.client.report_progress(running.id, 40)


def test_a_schedule_that_has_nothing_to_remember_remembers_nothing(story: Story) -> None:
    story.add("copy", "@yearly")

    assert story.client.state("copy") == {}
    with pytest.raises(NotFound):
        story.client.state("nothing")


def test_what_a_schedule_remembers_stays_when_it_is_changed_and_goes_with_it(
    edgecron: Edgecron, database: Path
) -> None:
    line = (
        """echo '{"edgecron": {"result": 3, "state": {"cursor": "[41]"}}}' >"$EDGECRON_RESULT" """
    )
    edgecron("add", "copy", "--every", "1h", "--shell", line)
    nothing = edgecron("show", "copy", "--json").json[0]["state"]
    waited = edgecron("run", "copy", "--wait", "--result")

    with Client(database) as client:
        client.edit("copy", lambda spec: replace(spec, name="other", triggers=("every 2h",)))
    shown = edgecron("show", "other", "--json").json[0]["state"]
    told = edgecron("show", "other").out
    edgecron("rm", "other")
    edgecron("add", "other", "--every", "1h", "--", "true")
    anew = edgecron("show", "other", "--json").json[0]["state"]

    assert (nothing, waited.json, shown, anew) == ({}, 3, {"cursor": [41]}, {})
    assert "  remembers    1 key\n" in told
    assert "remembers" not in edgecron("show", "other").out


def test_a_marked_result_that_is_malformed_is_told_like_any_other(edgecron: Edgecron) -> None:
    line = """echo '{"edgecron": {"state": {"cursor": 41}}}' >"$EDGECRON_RESULT" """
    edgecron("add", "copy", "--every", "1h", "--shell", line)
    edgecron("run", "copy", "--wait")

    said = edgecron("logs", "copy", "--result")

    assert "a result that is not JSON" in said.err
    assert edgecron("show", "copy", "--json").json[0]["state"] == {}


def test_how_far_a_run_is_shows_wherever_it_does(tmp_path: Path, edgecron: Edgecron) -> None:
    with make_scene(tmp_path / "scene.db") as scene:
        with scene.client() as client:
            [run] = client.history(choice=RunChoice(statuses=(Status.RUNNING,)))
            client.report_progress(run.id, 0.4, "12 of\x1b[2J 30")
        told = ("--db", str(scene.path))

        [history] = edgecron(*told, "history", "--status", "running", "--json").json
        [status] = edgecron(*told, "status", "--json").json[0]["runs"]
        [outlook] = edgecron(*told, "show", run.schedule, "--json").json
        said = [
            edgecron(*told, *words).out
            for words in (("history", run.schedule), ("status",), ("show", run.schedule))
        ]

    [active] = outlook["outlook"]["active"]
    wanted = {"fraction": 0.4, "text": "12 of\\x1b[2J 30"}
    assert history["progress"] == status["progress"] == active["progress"] == wanted
    assert ["40%, 12 of\\x1b[2J 30" in out for out in said] == [True] * 3
