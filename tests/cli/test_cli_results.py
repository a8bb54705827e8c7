"""What a run left in the file EDGECRON_RESULT, and when each line of its output came."""

from __future__ import annotations

import re

import pytest

from tests.support.cli import Edgecron

COUNT = """echo counting; echo '{"rows": 3, "name": "\\u001b[31m"}' >"$EDGECRON_RESULT" """


def add(edgecron: Edgecron, name: str, line: str) -> None:
    said = edgecron("add", name, "--every", "1h", "--shell", line)
    assert said.code == 0, said.err


def test_run_with_wait_prints_the_result_instead_of_the_output(edgecron: Edgecron) -> None:
    add(edgecron, "count", COUNT)

    said = edgecron("run", "count", "--wait", "--result")

    assert (said.code, said.json) == (0, {"rows": 3, "name": "\x1b[31m"})
    assert "\x1b" not in said.out


def test_a_job_that_fails_without_a_result_shows_what_it_printed(edgecron: Edgecron) -> None:
    add(edgecron, "count", "echo no; exit 3")

    said = edgecron("run", "count", "--wait", "--result")

    # Whoever asked for the result reads JSON on stdout.
    assert (said.code, said.out, said.err) == (3, "", "no\n")


def test_a_job_that_ends_well_without_the_result_that_is_asked_for_is_an_error(
    edgecron: Edgecron,
) -> None:
    add(edgecron, "count", "true")

    said = edgecron("run", "count", "--wait", "--result")

    assert said.code == 125
    assert "run 1 of count left no result" in said.err


def test_logs_show_the_result_of_a_run(edgecron: Edgecron) -> None:
    add(edgecron, "count", COUNT)
    edgecron("run", "count", "--wait")

    plain = edgecron("logs", "count", "--result")
    structured = edgecron("logs", "1", "--result", "--json")

    assert plain.json == {"rows": 3, "name": "\x1b[31m"}
    assert structured.json == [{"run": 1, "result": plain.json}]


def test_a_result_is_the_same_value_wherever_it_is_shown_as_json(edgecron: Edgecron) -> None:
    add(edgecron, "count", COUNT)

    waited = edgecron("run", "count", "--wait", "--result", "--json").json
    past = edgecron("history", "count", "--json").json
    logged = edgecron("logs", "count", "--result", "--json").json

    shown = [run["result"] for run in (*waited, *past, *logged)]
    assert shown == [{"rows": 3, "name": "\x1b[31m"}] * 3


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("echo { >$EDGECRON_RESULT", "a result that is not JSON"),
        ("head -c 70000 /dev/zero >$EDGECRON_RESULT", "a result that was too big to keep"),
    ],
)
def test_logs_say_why_a_result_was_not_kept(edgecron: Edgecron, line: str, words: str) -> None:
    add(edgecron, "count", line)
    edgecron("run", "count", "--wait")

    assert words in edgecron("logs", "count", "--result").err


def test_logs_of_a_run_without_a_result_say_so(edgecron: Edgecron) -> None:
    add(edgecron, "count", "true")
    edgecron("run", "count", "--wait")

    said = edgecron("logs", "count", "--result")

    assert said.code == 3
    assert "left no result" in said.err
    assert "EDGECRON_RESULT" in said.err


@pytest.mark.parametrize("words", [("run", "x", "--result"), ("logs", "x", "--result", "-f")])
def test_a_result_is_not_asked_for_where_there_can_be_none(
    edgecron: Edgecron, words: tuple[str, ...]
) -> None:
    add(edgecron, "x", "true")

    assert edgecron(*words).code == 2


def test_only_what_was_dropped_of_a_stream_is_said_of_it(edgecron: Edgecron) -> None:
    add(edgecron, "x", "echo few >&2; head -c 400000 /dev/zero; echo last >&2")
    edgecron("run", "x", "--wait")

    whole = edgecron("logs", "x", "--stream", "stderr")

    assert (whole.out, whole.err) == ("few\nlast\n", "")
    assert "bytes were not kept" in edgecron("logs", "x", "--stream", "stdout").err


def test_times_and_streams_stand_before_each_line(edgecron: Edgecron) -> None:
    add(edgecron, "x", "printf 'one\\ntwo'; exec 1>&-; echo three >&2")
    edgecron("run", "x", "--wait")

    lines = edgecron("logs", "x", "--times").out.splitlines()

    stamp = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}"
    assert [re.sub(stamp, "T", line) for line in lines] == [
        "T out  one",
        "T out  two",
        "T err  three",
    ]
    assert len(set(re.findall(stamp, "".join(lines)))) >= 1
    assert edgecron("logs", "x", "--times", "--stream", "stderr").out.endswith("err  three\n")


def test_a_run_with_a_payload_of_its_own_is_told_it(edgecron: Edgecron) -> None:
    said = edgecron(
        *("add", "poll", "--every", "1h", "--payload", '"plc1"'),
        *("--shell", 'echo "$EDGECRON_PAYLOAD"'),
    )
    assert said.code == 0, said.err

    own = edgecron("run", "poll", "--wait", "--payload", '{"host": "$(touch x)"}')
    plain = edgecron("run", "poll", "--wait")

    assert (own.code, own.out) == (0, '{"host": "$(touch x)"}\n')
    assert (plain.code, plain.out) == (0, '"plc1"\n')
    shown = [run["payload"] for run in edgecron("history", "poll", "--json").json]
    assert shown == [None, '{"host": "$(touch x)"}']


@pytest.mark.parametrize("wait", [(), ("--wait",)])
def test_a_run_with_a_payload_that_is_no_json_is_refused(
    edgecron: Edgecron, wait: tuple[str, ...]
) -> None:
    add(edgecron, "poll", "true")

    said = edgecron("run", "poll", *wait, "--payload", "{")

    assert (said.code, said.out) == (125 if wait else 2, "")
    assert "payload is not JSON" in said.err
    assert edgecron("history", "--json").json == []
