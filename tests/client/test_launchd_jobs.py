"""Property lists of launchd as schedules."""

from __future__ import annotations

import plistlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgecron.base.errors import InvalidInput
from edgecron.client.machine_files import read_launchd_job


def plist(**values: object) -> bytes:
    return plistlib.dumps({"Label": "org.example.copy", **values})


@pytest.mark.parametrize(
    ("values", "triggers"),
    [
        ({"StartCalendarInterval": {"Hour": 2, "Minute": 30}}, ("30 2 * * *",)),
        ({"StartCalendarInterval": [{"Day": 1}, {"Weekday": 7}]}, ("* * 1 * *", "* * * * 7")),
        ({"StartInterval": 300, "RunAtLoad": True}, ("every 300s", "on boot")),
        ({"RunAtLoad": True}, ("on boot",)),
        ({"RunAtLoad": True, "KeepAlive": True}, ()),
        ({"StartCalendarInterval": [{"Minute": 5, "Hour": 1, "Month": 2}]}, ("5 1 * 2 *",)),
        ({"StartCalendarInterval": {}}, ("* * * * *",)),
        ({"WatchPaths": ["/etc/hosts"]}, ()),
        ({}, ()),
    ],
)
def test_times_become_triggers(values: dict[str, object], triggers: tuple[str, ...]) -> None:
    job = read_launchd_job(plist(ProgramArguments=["/opt/a", "b c"], **values))

    assert job.triggers == triggers
    assert (job.label, job.command) == ("org.example.copy", "/opt/a 'b c'")


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"<plist>", plistlib.dumps([1]), plistlib.dumps({"Program": "/a"})),
        *(plist(ProgramArguments="x"), plist(StartCalendarInterval=5)),
        *(plist(StartCalendarInterval=[5]), plist(StartCalendarInterval={"Hour": 24})),
        *(plist(StartCalendarInterval={"Hour": True}), plist(StartInterval=0)),
        *(plist(StartInterval="daily"), plist(StartInterval=True)),
    ],
)
def test_anything_else_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidInput, match=r"property list|ProgramArguments|Start|Hour"):
        read_launchd_job(content)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"KeepAlive": {"SuccessfulExit": False}}, "when it ends (KeepAlive)"),
        ({"WatchPaths": ["/etc/hosts"]}, "when a file changes (WatchPaths)"),
        ({"QueueDirectories": ["/var/spool/q"]}, "while a folder has files (QueueDirectories)"),
        ({"StartOnMount": True}, "when a disk is mounted (StartOnMount)"),
        ({"Sockets": {"web": {}}}, "for a connection (Sockets)"),
    ],
)
def test_another_start_is_named(values: dict[str, object], words: str) -> None:
    job = read_launchd_job(plist(StartInterval=60, **values))

    assert job.other_start is not None
    assert words in job.other_start


def test_launchd_runs_calendar_times_after_a_sleep_and_intervals_not() -> None:
    assert read_launchd_job(plist(StartCalendarInterval={"Hour": 1})).is_calendar
    assert not read_launchd_job(plist(StartInterval=60)).is_calendar


@given(content=st.binary() | st.binary().map(b"bplist00".__add__))
def test_any_bytes_are_a_job_or_refused(content: bytes) -> None:
    try:
        label = read_launchd_job(content).label
    except InvalidInput:
        label = "refused"
    assert label
