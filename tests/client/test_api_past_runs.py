"""What a run of the past was told, and what its schedule said then."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from edgecron.model.schedule import ScheduleSpec
from edgecron.supervisor.environment import given_variables
from tests.support.engines import Place


def test_what_a_run_was_given_is_what_it_found(tmp_path: Path) -> None:
    job = Job(
        kind=JobKind.SHELL,
        argv=("env",),
        env={"COLOR": "green", "EDGECRON_RUN_ID": "forged"},
        payload='{"a": 1}',
    )
    with ExitStack() as stack:
        place = Place(tmp_path, stack)
        place.client.add(ScheduleSpec(name="job", triggers=("@yearly",), job=job))
        daemon = place.daemon()
        [run] = place.client.run_now("job")
        daemon.wait_for("ended")
        output = place.client.output(run.id)
        ended = place.client.execution(run.id)

    assert output is not None
    lines = b"".join(chunk.content for chunk in output.chunks).decode().splitlines()
    found = dict(line.split("=", 1) for line in lines if line.startswith(("COLOR", "EDGECRON_")))
    del found["EDGECRON_RESULT"]  # which its supervisor adds
    assert given_variables(ended, job) == found


def test_what_a_schedule_said_then_is_told_after_it_was_changed(tmp_path: Path) -> None:
    with ExitStack() as stack:
        client = Place(tmp_path, stack).client
        job = Job(kind=JobKind.SHELL, argv=("echo one",))
        schedule = client.add(ScheduleSpec(name="job", triggers=("@yearly",), job=job))
        [run] = client.run_now("job")
        changed = replace(schedule.spec, job=replace(job, argv=("echo two",)))
        client.edit("job", lambda spec: changed)
        client.remove("job")

        spec = client.spec_of(run)

    assert spec is not None
    assert spec.job.argv == ("echo one",)
