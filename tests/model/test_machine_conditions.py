"""Conditions of the machine: what is read, refused, said and judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgecron.base.errors import InvalidInput
from edgecron.model.conditions import look_at, parse_condition
from edgecron.model.machine_conditions import FORMS, Kind
from tests.support.clock import FakeClock
from tests.support.fakemachine import FakeMachine


@pytest.mark.parametrize(
    ("text", "canonical", "words", "opposite"),
    [
        ("online", "online", "a network connection", "the network connection to end"),
        ("network:wg0", "network:wg0", "network wg0", "network wg0 to go down"),
        ("ac-power", "ac-power", "AC power", "battery power"),
        (
            "battery:50",
            "battery:50%",
            "a battery charge of 50% or more",
            "a battery charge below 50%",
        ),
        ("idle:600s", "idle:10m", "10m without typing", "a user to type"),
        ("load:1.50", "load:1.5", "a load below 1.5", "a load of 1.5 or more"),
        (
            "pressure:io:10",
            "pressure:io:10%",
            "io pressure below 10%",
            "io pressure of 10% or more",
        ),
        (
            "disk:/srv/a:b:5000MB",
            "disk:/srv/a:b:5GB",
            "5GB of free space at /srv/a:b",
            "less than 5GB of free space at /srv/a:b",
        ),
        ("mounted:/mnt/", "mounted:/mnt", "a file system at /mnt", "no file system at /mnt"),
        ("exists:/run/up", "exists:/run/up", "/run/up to exist", "/run/up to be removed"),
        (
            "command: test -e '/srv/a b'",
            "command:test -e '/srv/a b'",
            "`test -e '/srv/a b'` to succeed",
            "`test -e '/srv/a b'` to fail",
        ),
        ("command[10s]:true", "command:true", "`true` to succeed", "`true` to fail"),
        ("command[60s]:true", "command[1m]:true", "`true` to succeed", "`true` to fail"),
    ],
)
def test_a_condition_is_read_and_said(text: str, canonical: str, words: str, opposite: str) -> None:
    read, negated = parse_condition(text), parse_condition(f"not:{text}")

    assert (read.text, read.words()) == (canonical, words)
    assert (negated.text, negated.words()) == (f"not:{canonical}", opposite)
    assert [parse_condition(one.text) for one in (read, negated)] == [read, negated]
    assert read.schedule is None


@pytest.mark.parametrize("kind", list(Kind))
def test_the_example_of_each_kind_can_be_used(kind: Kind) -> None:
    _, example = FORMS[kind]

    assert parse_condition(example).text == example


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("online:yes", "'online' takes no value, expected online"),
        ("network", "it is not complete, expected network:NAME"),
        ("battery:", "it is not complete"),
        ("disk:/srv", "it is not complete, expected disk:PATH:SIZE"),
        ("battery:full", "'full' is not a number, expected battery:N%"),
        ("battery:0%", "'0%' is not between 0 and 100"),
        ("battery:101%", "is not between 0 and 100"),
        ("load:nan", "is not between 0 and 10000"),
        ("idle:soon", "duration 'soon' is not understood"),
        ("pressure:io", "it is not complete"),
        ("pressure:gpu:5%", "resource 'gpu' is unknown"),
        ("disk:srv:5GB", "path 'srv' does not start with /"),
        ("disk:/srv:much", "size 'much' is not understood, expected disk:PATH:SIZE"),
        ("mounted:mnt", "path 'mnt' does not start with /"),
        ("command:", "it is not complete, expected command:ARGV"),
        ("command:sh -c 'x", "a quote has no end"),
        ("command[30s:true", "']' is missing after the timeout"),
        ("command[1h]:true", "timeout '1h' is not between 1ms and 10m"),
        ("command[soon]:true", "duration 'soon' is not understood"),
    ],
)
def test_what_is_invalid_is_refused_with_an_example(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as error:
        parse_condition(text)

    assert message in str(error.value)
    assert error.value.hint is not None
    assert "for example: " in error.value.hint


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("online", True),
        ("network:eth0", True),
        ("network:wg0", False),
        ("ac-power", True),
        ("battery:80%", True),
        ("battery:81%", False),
        ("load:1", True),
        ("load:0.5", False),
        ("pressure:io:2%", True),
        ("pressure:io:1%", False),
        ("mounted:/", True),
        ("mounted:/mnt", False),
        ("exists:/proc/loadavg", True),
        ("disk:/proc:1KB", True),
        ("disk:/proc:1000000TB", False),
        ("pressure:cpu:5%", None),
        ("disk:/nowhere:1KB", None),
    ],
)
def test_a_condition_is_judged_by_the_facts_of_the_machine(
    tmp_path: Path, text: str, expected: bool | None
) -> None:
    machine = FakeMachine(tmp_path, FakeClock(0)).facts()

    known = look_at(machine, (text, f"not:{text}"))

    assert list(known.values()) == ([] if expected is None else [expected])
