"""Property lists of launchd as schedules."""

from __future__ import annotations

import plistlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgecron.base.errors import InvalidInput
from edgecron.formats.launchd_jobs import read_launchd_job


def plist(**values: object) -> bytes:
    return plistlib.dumps({"Label": "org.example.copy", **values})


@pytest.mark.parametrize(
    ("values", "triggers"),
    [
        ({"StartCalendarInterval": {"Hour": 2, "Minute": 30}}, ("30 2 * * *",)),
        ({"StartCalendarInterval": [{"Day": 1}, {"Weekday": 7}]}, ("* * 1 * *", "* * * * 7")),
        ({"StartInterval": 300, "RunAtLoad": True}, ("every 300s", "on boot")),
        ({"RunAtLoad": True}, ()),
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
    ],
)
def test_anything_else_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidInput, match=r"property list|ProgramArguments|StartCalendar|Hour"):
        read_launchd_job(content)


@given(content=st.binary() | st.binary().map(b"bplist00".__add__))
def test_any_bytes_are_a_job_or_refused(content: bytes) -> None:
    try:
        label = read_launchd_job(content).label
    except InvalidInput:
        label = "refused"
    assert label
