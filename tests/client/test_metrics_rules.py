"""What `promtool check metrics` would say of each text of metrics that there is: nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from edgecron.cli import run
from edgecron.client.metrics import exposition
from tests.support.http import serving
from tests.support.promlint import lint
from tests.support.remote import answer_of, answering, said
from tests.support.story import Story

# As users were promised them, letter for letter.
PROMISED = {
    "scheduler_runs_total": ("counter", "schedule_id,status"),
    "scheduler_run_duration_seconds": ("histogram", ""),
    "scheduler_last_run_timestamp": ("gauge", "schedule_id"),
    "scheduler_next_run_timestamp": ("gauge", "schedule_id"),
    "scheduler_lock_failures_total": ("counter", ""),
}


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """Runs of every end, and a crowd that comes in slices."""
    story = Story(tmp_path / "edgecron.db")
    story.add("good", "* * * * *", lasts_s=1)
    story.add("bad.one-2", "* * * * *", code=1)
    story.add_many(500, "idle-", "0 0 1 1 *")
    for _ in range(3):
        story.after_s(60)
        story.after_s(2)
    return story


def test_the_text_of_a_database_has_nothing_wrong(story: Story) -> None:
    assert lint(exposition(story.client, None)[0].decode()) == []


def test_the_text_with_a_label_for_each_schedule_has_nothing_wrong(story: Story) -> None:
    body, _ = exposition(story.client, None, per_schedule=True)
    lines = body.decode().splitlines()
    openly, _ = exposition(story.client, "application/openmetrics-text", per_schedule=True)

    assert lint(body.decode()) == []
    assert len(list(text_string_to_metric_families(openly.decode()))) == 18
    assert len([line for line in lines if line.startswith("# TYPE")]) == 18
    for name in ("scheduler_run_duration_seconds", "scheduler_claim_latency_seconds"):
        assert f'{name}_count{{schedule_id="bad.one-2"}} 3.0' in lines
        assert f'{name}_count{{schedule_id="idle-499"}} 0.0' in lines
        assert [line for line in lines if 'le="+Inf"' in line and 'schedule_id="good"' in line]
        assert not [line for line in lines if line.startswith(f"{name}_count ")]


def test_a_removed_schedule_has_no_histogram_of_its_own(story: Story) -> None:
    story.client.remove("good")

    body, _ = exposition(story.client, None, per_schedule=True)

    assert b'schedule_id="good"' not in body
    assert lint(body.decode()) == []


def test_the_command_line_and_the_server_give_labels_for_each_schedule_on_request(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = {**PROMISED, "scheduler_run_duration_seconds": ("histogram", "schedule_id")}
    with serving(story.client.path) as api:
        served = api.get("/metrics?per_schedule=1").body.decode()
        code = run(["--url", f"http://127.0.0.1:{api.port}", "metrics", "--per-schedule"])
        fetched = capsys.readouterr().out
        refused = api.ask("GET", "/metrics?per_schedule=yes")

    assert code == 0
    code = run(["--db", str(story.client.path), "metrics", "--per-schedule"])
    printed = capsys.readouterr().out

    assert code == 0
    assert lint(printed) == []
    assert series_of(served) == series_of(fetched) == series_of(printed)
    for text in (served, fetched, printed):
        assert promised_in(text) == expected
    assert refused.status == 422
    assert b"expected 0 or 1" in refused.body


def test_the_command_line_and_the_server_give_that_text_by_the_names_that_were_promised(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(story.client.path) as api:
        served = api.get("/metrics").body.decode()

    code = run(["--db", str(story.client.path), "metrics"])
    printed = capsys.readouterr().out

    assert code == 0
    assert lint(printed) == lint(served) == []
    for text in (printed, served):
        assert promised_in(text) == PROMISED


def series_of(text: str) -> list[str]:
    """Every line without its value."""
    return [line.rpartition(" ")[0] for line in text.splitlines()]


def promised_in(text: str) -> dict[str, tuple[str, str]]:
    """The kind of each family that was promised, and the labels of its first line."""
    found = {}
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        if name in PROMISED:
            line = re.search(rf"^{name}(?:_count)?({{.*}})? ", text, re.MULTILINE)
            assert line is not None, f"{name} has no line"
            found[name] = (kind, ",".join(re.findall(r'(\w+)="', line[1] or "")))
    return found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# TYPE x gauge\nx 1\n", "x: a type without a help text before it"),
        ("# HELP x \n# TYPE x gauge\nx 1\n", "x: no help text"),
        ("# HELP x A.\n# TYPE x gauge\nx 1\ny 2\n", "y: a line that is not below its head"),
        (
            "# HELP x A.\n# TYPE x gauge\n# HELP y A.\n# TYPE y gauge\ny 1\n# HELP x A.\nx 1\n",
            "x: a second head",
        ),
        ("# HELP x A.\n# TYPE x gauge\nx 1", "the last line has no end"),
        (
            "# HELP x_milliseconds A.\n# TYPE x_milliseconds gauge\nx_milliseconds 1\n",
            'x_milliseconds: use base unit "seconds" instead of "milliseconds"',
        ),
        (
            "# HELP x_kibibytes A.\n# TYPE x_kibibytes gauge\nx_kibibytes 1\n",
            'x_kibibytes: use base unit "bytes" instead of "kibibytes"',
        ),
        (
            "# HELP x_runs A.\n# TYPE x_runs counter\nx_runs 1\n",
            'x_runs: counter metrics should have "_total" suffix',
        ),
        (
            "# HELP x_total A.\n# TYPE x_total gauge\nx_total 1\n",
            'x_total: non-counter metrics should not have "_total" suffix',
        ),
        (
            "# HELP x_count A.\n# TYPE x_count gauge\nx_count 1\n",
            'x_count: non-histogram metrics should not have "_count" suffix',
        ),
        (
            '# HELP x A.\n# TYPE x gauge\nx{le="1"} 1\n',
            'x: non-histogram metrics should not have "le" label',
        ),
        (
            "# HELP x_gauge A.\n# TYPE x_gauge gauge\nx_gauge 1\n",
            "x_gauge: metric name should not include type 'gauge'",
        ),
        ("# HELP x:y A.\n# TYPE x:y gauge\nx:y 1\n", "x:y: metric names should not contain ':'"),
        (
            '# HELP x A.\n# TYPE x gauge\nx{runId="1"} 1\n',
            "x: runId should be in snake_case",
        ),
        (
            "# HELP x_ms A.\n# TYPE x_ms gauge\nx_ms 1\n",
            "x_ms: metric names should not contain abbreviated units",
        ),
        (
            '# HELP x A.\n# TYPE x gauge\nx{a="1"} 1\nx{a="1"} 2\n',
            "x: metric not unique",
        ),
    ],
)
def test_each_rule_finds_what_it_is_for(text: str, words: str) -> None:
    assert words in lint(text)


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_server_that_does_not_know_the_option_is_no_server_without_schedules(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    older = (
        b"# HELP scheduler_lock_failures_total a\n# TYPE scheduler_lock_failures_total counter\n"
    )
    with answering(said(answer_of(older + b"scheduler_lock_failures_total 0.0\n"))) as url:
        code = run(["--url", url, *words, "metrics", "--per-schedule"])

    told = capsys.readouterr()
    assert (code, told.out) == (1, "")
    assert f"the server at {url} has no metrics per schedule" in told.err
