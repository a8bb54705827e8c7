"""Metrics as text: names that are a contract, rules that promtool would check, long ones in
slices."""

from __future__ import annotations

import re
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open
from prometheus_client.parser import text_string_to_metric_families as read_plain
from prometheus_client.samples import Sample

from edgecron.client import Client
from edgecron.client.metrics import exposition, exposition_parts
from edgecron.model.choices import Status
from edgecron.model.options import Policies
from tests.support.story import Story

ROOT = Path(__file__).parents[2]
OPEN = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
# The contract: the names, and their labels.
NAMES = {
    "scheduler_build_info": {"version"},
    "scheduler_engines_alive": set(),
    "scheduler_engines_stalled": set(),
    "scheduler_schedules": {"state"},
    "scheduler_running": set(),
    "scheduler_queued": set(),
    "scheduler_owed": set(),
    "scheduler_database_bytes": set(),
    "scheduler_wal_bytes": set(),
    "scheduler_lock_failures_total": set(),
    "scheduler_run_duration_seconds": set(),
    "scheduler_claim_latency_seconds": set(),
    "scheduler_runs_total": {"schedule_id", "status"},
    "scheduler_skipped_total": {"schedule_id"},
    "scheduler_last_run_timestamp": {"schedule_id"},
    "scheduler_last_success_timestamp": {"schedule_id"},
    "scheduler_next_run_timestamp": {"schedule_id"},
}  # fmt: skip


@pytest.fixture
def story(tmp_path: Path) -> Story:
    story = Story(tmp_path / "edgecron.db")
    story.add("good", "* * * * *", lasts_s=1)
    story.add("bad", "* * * * *", code=1, policies=Policies(retries=0))
    story.add("idle", "0 0 1 1 *")
    for _ in range(3):
        story.after_s(60)
        story.after_s(2)
    return story


def samples_of(client: Client) -> dict[tuple[str, ...], float]:
    """Each value, by its name and the values of its labels in order of their names."""
    body, _ = exposition(client, None)
    found: dict[tuple[str, ...], float] = {}
    for family in read_plain(body.decode()):
        for sample in family.samples:
            key = (sample.name, *(value for _, value in sorted(sample.labels.items())))
            assert key not in found, f"{key} is there twice"
            found[key] = sample.value
    return found


def test_runs_are_counted_by_schedule_and_status(story: Story) -> None:
    found = samples_of(story.client)

    assert found["scheduler_runs_total", "good", "success"] == 3
    assert found["scheduler_runs_total", "good", "failed"] == 0
    assert found["scheduler_runs_total", "bad", "failed"] == 3
    assert found["scheduler_runs_total", "idle", "success"] == 0
    assert found["scheduler_run_duration_seconds_count",] == 6
    assert found["scheduler_run_duration_seconds_sum",] == pytest.approx(
        sum(run.duration_ms or 0 for name in ("good", "bad") for run in story.runs(name)) / 1000
    )
    assert found["scheduler_claim_latency_seconds_bucket", "+Inf"] == 6


def test_times_are_seconds_and_are_left_out_where_there_are_none(story: Story) -> None:
    found = samples_of(story.client)
    good, idle = story.client.schedule("good"), story.client.schedule("idle")
    assert good.last_run_at is not None
    assert idle.next_run_at is not None

    assert found["scheduler_last_run_timestamp", "good"] == good.last_run_at.timestamp()
    assert found["scheduler_next_run_timestamp", "idle"] == idle.next_run_at.timestamp()
    assert ("scheduler_last_run_timestamp", "idle") not in found
    assert ("scheduler_last_success_timestamp", "bad") not in found


def test_what_is_left_out_is_counted_apart_from_runs(story: Story) -> None:
    story.world.clock.advance_ms(10 * 60_000)
    story.engine.step()

    found = samples_of(story.client)

    assert (
        found["scheduler_skipped_total", "good"]
        == story.client.schedule("good").counts[Status.SKIPPED]
        > 0
    )
    assert ("scheduler_runs_total", "good", "skipped") not in found


def test_schedules_are_counted_by_state_and_removed_ones_vanish(story: Story) -> None:
    story.client.pause("good")
    story.client.remove("bad")

    found = samples_of(story.client)

    assert found["scheduler_schedules", "active"] == 1
    assert found["scheduler_schedules", "paused"] == 1
    assert found["scheduler_schedules", "broken"] == 0
    assert found["scheduler_schedules", "vanished"] == 0
    assert not [key for key in found if "bad" in key]
    assert found["scheduler_run_duration_seconds_count",] == 6


def test_a_scrape_changes_nothing(story: Story) -> None:
    other = Client(story.client.path, clock=story.world.clock)
    mark = story.client.change_mark()

    samples_of(other)

    assert story.client.change_mark() == mark


def test_an_empty_database_has_every_family(tmp_path: Path) -> None:
    body, _ = exposition(Client(tmp_path / "new.db"), None)

    assert re.findall(r"^# TYPE (\S+)", body.decode(), re.MULTILINE) == list(NAMES)


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (None, "text/plain; version=0.0.4; charset=utf-8"),
        ("*/*", "text/plain; version=0.0.4; charset=utf-8"),
        ("text/plain, application/openmetrics-text", "text/plain; version=0.0.4; charset=utf-8"),
        (OPEN, "application/openmetrics-text; version=1.0.0; charset=utf-8"),
        (
            "Application/OpenMetrics-Text; version=1\r\nX: y",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        ),
    ],
)
def test_the_format_is_the_first_that_is_accepted(
    story: Story, accept: str | None, content_type: str
) -> None:
    body, found = exposition(story.client, accept)

    assert found == content_type
    assert body.endswith(b"# EOF\n") == ("openmetrics" in content_type)


def test_both_formats_say_the_same(story: Story) -> None:
    def said(samples: list[Sample]) -> set[tuple[str, str, float]]:
        return {(one.name, str(sorted(one.labels.items())), one.value) for one in samples}

    plain = exposition(story.client, None)[0].decode()
    openly = exposition(story.client, OPEN)[0].decode()

    assert said([one for family in read_plain(plain) for one in family.samples]) == said(
        [one for family in read_open(openly) for one in family.samples]
    )


# What promtool asks for beside it is in test_metrics_rules.py.


def test_each_family_is_of_its_name_and_said_in_a_sentence(story: Story) -> None:
    families = list(read_plain(exposition(story.client, None)[0].decode()))

    for family in families:
        assert family.documentation.endswith("."), family.name
        assert family.type in ("counter", "gauge", "histogram"), family.name
        for sample in family.samples:
            assert re.fullmatch(r"[a-z][a-z_]*[a-z]", sample.name)
    assert {family.name + "_total" * (family.type == "counter") for family in families} == set(
        NAMES
    )


def test_labels_are_those_of_the_contract(story: Story) -> None:
    for family in read_plain(exposition(story.client, None)[0].decode()):
        for sample in family.samples:
            name = re.sub(r"_(bucket|sum|count)$", "", sample.name)
            assert set(sample.labels) - {"le"} == NAMES[name]


def test_a_histogram_rises_from_step_to_step_to_its_count(story: Story) -> None:
    found = samples_of(story.client)
    for name in ("scheduler_run_duration_seconds", "scheduler_claim_latency_seconds"):
        steps = [(key[1], value) for key, value in found.items() if key[0] == f"{name}_bucket"]

        values = [value for _, value in steps]

        assert values == sorted(values)
        assert steps[-1] == ("+Inf", found[f"{name}_count",])
        assert [float(end) for end, _ in steps] == sorted(float(end) for end, _ in steps)


# Many schedules.


@pytest.fixture
def crowded(story: Story) -> Story:
    with story.client.store.transaction():
        database = story.client.store
        names = [row[0] for row in database.rows("SELECT name FROM pragma_table_info('schedules')")]
        columns = ", ".join(name for name in names if name not in ("id", "name"))
        database.change(
            f"""WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
                INSERT INTO schedules (name, {columns})
                SELECT 'many-' || i, {columns} FROM n, schedules WHERE name = 'good'"""
        )
    return story


@pytest.mark.parametrize("accept", [None, OPEN])
def test_a_family_in_slices_has_one_head_and_every_schedule_once(
    crowded: Story, accept: str | None
) -> None:
    text = exposition(crowded.client, accept)[0].decode()
    families = list((read_open if accept else read_plain)(text))

    heads = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads)) == len(families) == len(NAMES)
    assert text.count("# EOF") == (1 if accept else 0)
    for family in families:
        if family.name == "scheduler_skipped":
            assert len({one.labels["schedule_id"] for one in family.samples}) == 3003
            assert len(family.samples) == 3003


def test_what_is_held_at_once_is_not_the_text_of_all_schedules(crowded: Story) -> None:
    sum(map(len, exposition_parts(crowded.client, None)[1]))  # All is loaded then.
    tracemalloc.start()

    total = sum(map(len, exposition_parts(crowded.client, None)[1]))

    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total > 1_200_000
    # The counts of 3,000 schedules and half a thousand lines; all of them would be twice as much.
    assert most < 2_500_000


def test_looking_for_the_library_does_not_load_it() -> None:
    look = "import sys; from edgecron.client.metrics import need_library; need_library()"

    done = subprocess.run(
        [sys.executable, "-c", f"{look}; sys.exit('prometheus_client' in sys.modules)"],
        cwd=ROOT,
        check=False,
    )

    assert done.returncode == 0
