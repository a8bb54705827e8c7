"""The dashboard on a real terminal: when it opens there, and how it leaves it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import termios
from pathlib import Path

import pytest

from edgecron.client import Client
from tests.support.edits import Edit
from tests.support.processes import Daemon, Gate, ends
from tests.support.program import PROGRAM, copied_program
from tests.support.specs import make_spec
from tests.support.terminal import (
    BOUND_S,
    on_terminal,
    process_on_terminal,
    read_until,
    resize,
)

_ENTERED = "\x1b[?1049h"
_LEFT = "\x1b[?1049l"
_SHOWN = "backup"  # the name of the only schedule
_COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9\d|10\d)[;m]")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A terminal of many colours, and a database with one schedule."""
    environment = {
        **{key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLORTERM")},
        "EDGECRON_DB": str(tmp_path / "edgecron.db"),
        "TZ": "UTC",
        "TERM": "xterm-256color",
    }
    with Client(tmp_path / "edgecron.db") as client:
        client.add(make_spec(_SHOWN, "every 1h"))
    return environment


def test_edgecron_alone_opens_the_dashboard_in_colours(environment: dict[str, str]) -> None:
    with on_terminal(environment) as outer:
        shown = read_until(outer, _SHOWN)
        os.write(outer, b"q")
        read_until(outer, None)

    assert _ENTERED in shown
    assert _COLOUR.search(shown)


@pytest.mark.failure(73)
@pytest.mark.parametrize(
    "change", [{"TERM": "dumb"}, {"TERM": ""}, {"PYTHONIOENCODING": "latin-1"}]
)
def test_edgecron_alone_tells_how_it_stands_where_no_dashboard_can_be_drawn(
    environment: dict[str, str], change: dict[str, str]
) -> None:
    with on_terminal({**environment, **change}) as outer:
        shown = read_until(outer, None)

    assert "1 schedule" in shown
    assert _ENTERED not in shown


def test_edgecron_alone_gives_json_where_that_is_asked_for(environment: dict[str, str]) -> None:
    with on_terminal(environment, "--json") as outer:
        shown = read_until(outer, None)

    assert json.loads(shown)[0]["schedules"] == 1


@pytest.mark.failure(73)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"TERM": "dumb"}, "edgecron tui --plain"),
        ({"PYTHONIOENCODING": "latin-1"}, "LC_ALL=C.UTF-8"),
    ],
)
def test_a_terminal_that_can_t_show_it_is_refused_with_what_to_do(
    environment: dict[str, str], change: dict[str, str], said: str
) -> None:
    with process_on_terminal({**environment, **change}, "tui") as (outer, process):
        shown = read_until(outer, None)
        code = process.wait(BOUND_S)

    assert code == 2
    assert said in shown
    assert _ENTERED not in shown


def test_json_is_refused_and_not_left_out(environment: dict[str, str]) -> None:
    with process_on_terminal(environment, "tui", "--json") as (outer, process):
        shown = read_until(outer, None)
        code = process.wait(BOUND_S)

    assert code == 2
    assert "edgecron status --json" in json.loads(shown)["error"]["hint"]


def test_what_is_no_terminal_is_refused(environment: dict[str, str]) -> None:
    ended = subprocess.run(
        [*PROGRAM, "tui"], env=environment, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 2
    assert "needs a terminal" in ended.stderr


@pytest.mark.parametrize("how", [b"q", b"\x11", signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_leaving_it_leaves_the_terminal_as_it_was(
    environment: dict[str, str], how: bytes | signal.Signals
) -> None:
    with process_on_terminal(environment, "tui") as (outer, process):
        before = termios.tcgetattr(outer)
        read_until(outer, _SHOWN)
        during = termios.tcgetattr(outer)
        if isinstance(how, bytes):
            os.write(outer, how)
        else:
            process.send_signal(how)
        shown = read_until(outer, None)
        after = termios.tcgetattr(outer)
        code = process.wait(BOUND_S)

    assert (code, after) == (0, before)
    assert during != before
    assert _LEFT in shown
    assert "\x1b[?25h" in shown


def test_a_dashboard_whose_terminal_has_gone_ends(environment: dict[str, str]) -> None:
    with process_on_terminal({**environment}, "tui") as (outer, process):
        read_until(outer, _SHOWN)
        kept = os.dup(outer)  # the fixture closes its own
        os.dup2(os.open(os.devnull, os.O_RDWR), outer)
        os.close(kept)

        assert process.wait(BOUND_S) in (0, 1)


def test_a_paste_whose_end_comes_in_two_parts_ends(environment: dict[str, str]) -> None:
    with process_on_terminal(environment | {"ESCDELAY": "1"}, "tui") as (outer, process):
        read_until(outer, _SHOWN)
        os.write(outer, b"\x1b[200~pasted\x1b[20")
        resize(outer, (30, 24))
        process.send_signal(signal.SIGWINCH)
        read_until(outer, "too small:")
        os.write(outer, b"1~q")

        assert process.wait(BOUND_S) == 0


def test_it_is_suspended_and_comes_back(environment: dict[str, str]) -> None:
    with process_on_terminal(environment, "tui") as (outer, process):
        before = termios.tcgetattr(outer)
        read_until(outer, _SHOWN)
        read_until(outer, "  ·  ")  # the last thing that is drawn
        os.write(outer, b"\x1a")
        left = read_until(outer, _LEFT)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        suspended = termios.tcgetattr(outer)
        process.send_signal(signal.SIGCONT)
        again = read_until(outer, "Timeline", after=_ENTERED)  # Nothing of it has changed.
        os.write(outer, b"q")
        read_until(outer, None)

    assert os.WIFSTOPPED(status)
    assert suspended == before
    assert _LEFT in left
    assert _ENTERED in again


def test_it_takes_its_terminal_back_when_it_was_stopped_without_a_word(
    environment: dict[str, str],
) -> None:
    with process_on_terminal(environment, "tui") as (outer, process):
        before = termios.tcgetattr(outer)
        read_until(outer, _SHOWN)
        during = termios.tcgetattr(outer)
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        termios.tcsetattr(outer, termios.TCSANOW, before)  # as the shell does
        process.send_signal(signal.SIGCONT)
        # What was drawn before it was stopped comes first.
        again = read_until(outer, _SHOWN, after=_ENTERED)
        taken = termios.tcgetattr(outer)
        os.write(outer, b"q")
        read_until(outer, None)
        after = termios.tcgetattr(outer)

    assert _ENTERED in again
    assert (taken, after) == (during, before)


# What `s` does then.
_DEFECT = Edit(
    function="SortingScreen.action_sort",
    old="self.sorted_view()",
    new=r"exec('raise RuntimeError(\'bad \\x1b]52;c;aGk=\\x07\')')",
)


def test_a_defect_is_told_when_the_terminal_is_restored(
    environment: dict[str, str], tmp_path: Path
) -> None:
    program = copied_program(tmp_path, _DEFECT)

    with process_on_terminal(environment, "tui", program=program) as (outer, process):
        before = termios.tcgetattr(outer)
        read_until(outer, _SHOWN)
        os.write(outer, b"s")
        shown = read_until(outer, None)
        after = termios.tcgetattr(outer)
        code = process.wait(BOUND_S)

    told = shown[shown.index(_LEFT) :]
    assert (code, after) == (1, before)
    assert "RuntimeError: bad \\x1b]52;c;aGk=\\x07" in told
    assert "the dashboard stopped because of a defect in edgecron" in told
    assert "\x1b]52" not in shown


@pytest.mark.parametrize(
    ("change", "words", "is_coloured"),
    [
        ({"NO_COLOR": "", "TERM": "linux"}, (), True),
        ({"NO_COLOR": "1"}, (), False),
        ({}, ("--color", "never"), False),
        ({"NO_COLOR": "1"}, ("--color", "always"), True),
    ],
)
def test_it_is_coloured_where_that_is_wanted(
    environment: dict[str, str], change: dict[str, str], words: tuple[str, ...], is_coloured: bool
) -> None:
    with on_terminal({**environment, **change}, *words, "tui") as outer:
        shown = read_until(outer, _SHOWN)
        os.write(outer, b"q")
        shown += read_until(outer, None)

    assert bool(_COLOUR.search(shown)) is is_coloured
    assert "\x1b[1" in shown  # bold, which is no colour


@pytest.mark.failure(73)
@pytest.mark.parametrize("sizes", [((20, 5), (39, 24)), ((1, 1), (200, 9))])
def test_where_the_terminal_is_too_small_it_says_so_until_it_is_larger(
    environment: dict[str, str], sizes: tuple[tuple[int, int], ...]
) -> None:
    # What a shell exported once is not the size of the terminal.
    environment |= {"COLUMNS": "80", "LINES": "24"}
    with process_on_terminal(environment, "tui", size=sizes[0]) as (outer, process):

        def resize_to(size: tuple[int, int], awaited: str) -> None:
            resize(outer, size)
            process.send_signal(signal.SIGWINCH)
            read_until(outer, awaited)

        small = read_until(outer, "too small:" if sizes[0] != (1, 1) else "t\x1b")
        for size in (*sizes[1:], sizes[0]):
            resize_to((80, 24), _SHOWN)
            resize_to(size, "too small:" if size != (1, 1) else "t\x1b")
        os.write(outer, b"q")
        read_until(outer, None)

        assert process.wait(BOUND_S) == 0
    assert _SHOWN not in small


@pytest.mark.failure(76)
@pytest.mark.parametrize("how", ["q", "kill"])
def test_leaving_it_leaves_the_daemon_and_its_job_alone(
    environment: dict[str, str], tmp_path: Path, how: str
) -> None:
    gate = Gate(tmp_path)
    words = ("add", "long", "--at", "in 1s", "--shell", gate.line)
    subprocess.run([*PROGRAM, *words], env=environment, capture_output=True, check=True)
    daemon = Daemon(tmp_path / "edgecron.db")
    try:
        job = os.pidfd_open(gate.wait_arrival())
        with process_on_terminal(environment, "tui") as (outer, process):
            read_until(outer, "long")
            os.write(outer, b"q") if how == "q" else process.kill()
            read_until(outer, None)

        assert not ends(job, bound_s=0)
        gate.open()
        ended = daemon.wait_for("ended", schedule="long")
        os.close(job)
    finally:
        daemon.close()
        gate.close()
    assert ended["status"] == "success"


def test_enter_typed_before_the_dashboard_owns_the_terminal_opens_a_line(
    environment: dict[str, str],
) -> None:
    with on_terminal(environment) as outer:
        os.write(outer, b"\r")  # The terminal still turns it into a line feed.
        read_until(outer, "Durations")
        os.write(outer, b"q")
        read_until(outer, None)


def test_one_line_adds_a_schedule(environment: dict[str, str]) -> None:
    with on_terminal(environment) as outer:
        read_until(outer, _SHOWN)
        os.write(outer, b"a")
        read_until(outer, "TIME run COMMAND")
        os.write(outer, b"every weekday at 9 run ./sync.sh")
        read_until(outer, "Monday to Friday")
        os.write(outer, b"\r")
        read_until(outer, "added sync")
        os.write(outer, b"q")
        read_until(outer, None)

    with Client(Path(environment["EDGECRON_DB"])) as client:
        assert client.schedule("sync").spec.triggers == ("0 9 * * MON-FRI",)


def test_nothing_starts_for_marked_lines_before_the_answer(environment: dict[str, str]) -> None:
    database = Path(environment["EDGECRON_DB"])
    with Client(database) as client:
        client.add(make_spec("report", "every 1h"))
        client.add(make_spec("sync", "every 1h"))
    with on_terminal(environment) as outer:
        read_until(outer, "sync")
        os.write(outer, b"*r")
        read_until(outer, "Run 3 schedules?")
        os.write(outer, b"n ")
        read_until(outer, "2 marked")
        with Client(database) as client:
            assert client.history() == []
        os.write(outer, b"r")
        # Not the words of the first question: that might be drawn twice, and an Enter that comes
        # before the second question does not answer it.
        read_until(outer, "Run 2 schedules?")
        os.write(outer, b"\r")
        read_until(outer, "started 2 schedules")
        os.write(outer, b"q")
        read_until(outer, None)


def test_an_action_on_many_shows_its_progress_and_is_stopped(environment: dict[str, str]) -> None:
    database = Path(environment["EDGECRON_DB"])
    with Client(database) as client, process_on_terminal(environment, "tui") as (outer, process):
        client.add(make_spec("report", "every 1h"))
        client.add(make_spec("sync", "every 1h"))
        read_until(outer, "sync")
        os.write(outer, b"*p")
        read_until(outer, "Pause 3 schedules")
        with client.store.transaction():  # The first one waits until this ends.
            os.write(outer, b"\r")
            read_until(outer, "esc stops it", after="pausing 0 of 3")
            os.write(outer, b"q")
            read_until(outer, "stay", after="Leave now?")
            os.write(outer, b"\x1b")
            read_until(outer, "sync")
            os.write(outer, b"\x1b")
            read_until(outer, "stopping ...")
        read_until(outer, "stopped: 2 schedules left as before")
        os.write(outer, b"q")
        read_until(outer, None)
        assert process.wait(BOUND_S) == 0
        assert sorted(one.enabled for one in client.schedules()) == [False, True, True]


def test_a_key_after_the_enter_of_a_filter_acts_on_the_list(environment: dict[str, str]) -> None:
    with Client(Path(environment["EDGECRON_DB"])) as client:
        client.add(make_spec("backup-photos", "every 1h"))
    with process_on_terminal(environment, "tui", size=(120, 36)) as (outer, _):
        read_until(outer, "backup-photos")
        os.write(outer, b"1")
        read_until(outer, "1 of 2")
        os.write(outer, b"/backup\rjp")
        read_until(outer, "Pause backup-photos")
        os.write(outer, b"\r")
        read_until(outer, "paused backup-photos")
        os.write(outer, b"q")
        read_until(outer, None)


def test_keys_after_the_enter_of_the_palette_act_on_what_it_opens(
    environment: dict[str, str],
) -> None:
    with Client(Path(environment["EDGECRON_DB"])) as client:
        client.add(make_spec("backup-photos", "every 1h"))
    with process_on_terminal(environment, "tui", size=(120, 36)) as (outer, _):
        read_until(outer, "backup-photos")
        os.write(outer, b":schedules\rjp")
        read_until(outer, "Pause ")
        os.write(outer, b"\r")
        read_until(outer, "paused ")
        os.write(outer, b"q")
        read_until(outer, None)


def test_a_picture_of_several_emoji_can_be_typed(environment: dict[str, str]) -> None:
    picture = "👩\u200d💻"
    with process_on_terminal(environment, "tui") as (outer, _):
        read_until(outer, "SCHEDULE")
        os.write(outer, f"alamp: hourly run echo {picture}\r".encode())
        read_until(outer, "added lamp")
        os.write(outer, b"q")
        read_until(outer, None)
    with Client(Path(environment["EDGECRON_DB"])) as client:
        assert client.schedule("lamp").spec.job.argv == ("echo", picture)


def test_keys_filter_by_hour_and_sort_runs(environment: dict[str, str]) -> None:
    with Client(Path(environment["EDGECRON_DB"])) as client:
        client.add(make_spec("nightly", "0 3 * * *"))
    with process_on_terminal(environment, "tui", size=(120, 36)) as (outer, _):
        read_until(outer, "nightly")
        os.write(outer, b"1/due:03 night\r")
        read_until(outer, "1 match")
        os.write(outer, b"3s")
        read_until(outer, "DURATION▾")
        os.write(outer, b"q")
        read_until(outer, None)


def test_the_runs_of_a_night_are_moved_together(environment: dict[str, str]) -> None:
    database = Path(environment["EDGECRON_DB"])
    with Client(database) as client:
        client.add(make_spec("night-early", "10 3 * * *"))
        client.add(make_spec("night-late", "50 3 * * *"))
    with process_on_terminal(environment, "tui", size=(120, 36)) as (outer, _):
        read_until(outer, _SHOWN)
        os.write(outer, b"2/due:03 night\r")
        read_until(outer, "14 matches")
        os.write(outer, b"*m")
        read_until(outer, "Move the next run of 2 schedules")
        os.write(outer, b"tomorrow 12:00")
        read_until(outer, "12:00:00, in")
        os.write(outer, b"\r")
        read_until(outer, "moved the next run of 2 schedules")
        os.write(outer, b"q")
        read_until(outer, None)

    with Client(database) as client:
        early, late = (client.schedule(f"night-{name}").next_run_at for name in ("early", "late"))
        assert early is not None
        assert early == late
        assert f"{early:%H:%M}" == "12:00"


def test_keys_zoom_the_timeline(environment: dict[str, str]) -> None:
    with process_on_terminal(environment, "tui", size=(120, 36)) as (outer, _):
        first = read_until(outer, "24 hours")
        os.write(outer, b"-")
        first += read_until(outer, "7 days")
        os.write(outer, b"+")
        read_until(outer, "24 hours")
        os.write(outer, b"q")
        read_until(outer, None)

    assert "OutputTail" not in first  # a part without content yet


def test_filtered_schedules_are_paused_together_until_a_weekday(
    environment: dict[str, str],
) -> None:
    database = Path(environment["EDGECRON_DB"])
    with Client(database) as client:
        client.add(make_spec("backup-photos", "0 3 * * *"))
        client.add(make_spec("report", "0 3 * * *"))
    with process_on_terminal(environment, "tui", size=(120, 36)) as (outer, _):
        read_until(outer, "report")
        os.write(outer, b"/backup\r")
        read_until(outer, "2 matches")
        os.write(outer, b"*")
        read_until(outer, "pause", after="2 marked")
        os.write(outer, b"p")
        read_until(outer, "backup, backup-photos")
        os.write(outer, b"monday")
        read_until(outer, "until Mon")
        os.write(outer, b"\r")
        read_until(outer, "paused 2 schedules; z undoes it")
        os.write(outer, b"q")
        read_until(outer, None)

    with Client(database) as client:
        until = {one.name: one.paused_until for one in client.schedules()}
        assert until["backup"] is not None
        assert until["backup"].weekday() == 0
        assert until["backup-photos"] == until["backup"]
        assert until["report"] is None


def test_the_screen_of_a_schedule_says_why_it_did_not_run(environment: dict[str, str]) -> None:
    with Client(Path(environment["EDGECRON_DB"])) as client:
        client.run_now(_SHOWN)
        client.run_now(_SHOWN)
    with process_on_terminal(environment, "tui", size=(120, 36)) as (outer, _):
        read_until(outer, _SHOWN)
        os.write(outer, b"\r")
        read_until(outer, "still", after="not run")
        os.write(outer, b"q")
        read_until(outer, None)


def test_the_form_changes_a_schedule(environment: dict[str, str]) -> None:
    database = Path(environment["EDGECRON_DB"])
    with process_on_terminal(environment, "tui", size=(120, 36)) as (outer, _):
        read_until(outer, _SHOWN)
        os.write(outer, b"e")
        read_until(outer, "Next times")
        read_until(outer, "in 1h")
        os.write(outer, b"\x15every 2hx\x7f")
        read_until(outer, "in 2h")
        os.write(outer, b"\x13")
        read_until(outer, "changed backup: when; ")
        with Client(database) as client:
            assert client.schedule(_SHOWN).spec.triggers == ("every 2h",)
        os.write(outer, b"z")
        read_until(outer, "undid the edit of backup")
        os.write(outer, b"q")
        read_until(outer, None)

    with Client(database) as client:
        assert client.schedule(_SHOWN).spec.triggers == ("every 1h",)


def test_a_key_shows_what_waits_for_a_schedule(environment: dict[str, str]) -> None:
    with Client(Path(environment["EDGECRON_DB"])) as client:
        client.add(make_spec("verify", f"after {_SHOWN}:failure"))
    with on_terminal(environment) as outer:
        read_until(outer, "verify")
        os.write(outer, b"w")
        read_until(outer, "after it fails")
        os.write(outer, b"q")
        read_until(outer, None)


def test_a_removal_names_the_schedules_that_depend_on_it(environment: dict[str, str]) -> None:
    with Client(Path(environment["EDGECRON_DB"])) as client:
        client.add(make_spec("verify", f"after {_SHOWN}"))
    with on_terminal(environment) as outer:
        read_until(outer, "verify")
        os.write(outer, b"d")
        read_until(outer, "will not run again: verify")
        os.write(outer, b"n")
        os.write(outer, b"q")
        read_until(outer, None)


def test_a_failure_is_listed_until_it_is_acknowledged(
    environment: dict[str, str], tmp_path: Path
) -> None:
    words = ("add", "broken", "--at", "in 1s", "--shell", "exit 7")
    subprocess.run([*PROGRAM, *words], env=environment, capture_output=True, check=True)
    daemon = Daemon(tmp_path / "edgecron.db")
    try:
        daemon.wait_for("ended", schedule="broken")
    finally:
        daemon.close()
    with on_terminal(environment) as outer:
        read_until(outer, "broken")
        os.write(outer, b"7")
        read_until(outer, "1 failed run")
        os.write(outer, b"r")
        read_until(outer, "of broken: queued")
        os.write(outer, b"a")
        read_until(outer, "no failures are open")
        os.write(outer, b"q")
        read_until(outer, None)


def test_keys_undo_two_changes_and_redo_one(environment: dict[str, str]) -> None:
    with process_on_terminal(environment, "tui", size=(120, 36)) as (outer, _):
        read_until(outer, _SHOWN)
        os.write(outer, b"p\r")
        read_until(outer, "z undoes it")
        os.write(outer, b"u")
        read_until(outer, "resumed backup")
        os.write(outer, b"z")
        read_until(outer, "undid the resume")
        os.write(outer, b"z")
        read_until(outer, "undid the pause")
        os.write(outer, b"Z")
        read_until(outer, "undid the undo")
        os.write(outer, b"q")
        read_until(outer, None)

    with Client(Path(environment["EDGECRON_DB"])) as client:
        assert not client.schedule(_SHOWN).enabled


def test_the_output_of_a_running_job_is_shown_below_the_list_as_it_comes(
    environment: dict[str, str], tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    line = f"printf '\\033[31mfirst\\033[0m step\\n'; {gate.line}; echo last step"
    words = ("add", "a-job", "--at", "in 1s", "--shell", line)
    subprocess.run([*PROGRAM, *words], env=environment, capture_output=True, check=True)
    daemon = Daemon(tmp_path / "edgecron.db")
    try:
        gate.wait_arrival()
        with process_on_terminal(environment, "tui", size=(120, 36)) as (outer, _):
            read_until(outer, "step", after="first")
            gate.open()
            read_until(outer, "last step")
            os.write(outer, b"o")
            read_until(outer, "\x1b[")
            os.write(outer, b"q")
            shown = read_until(outer, None)
    finally:
        daemon.close()
        gate.close()
    assert "x1b" not in shown


_SEQUENCE = re.compile(r"\x1b\]([^\x07]*)\x07")


@pytest.mark.parametrize(
    ("notify", "bells", "messages"),
    [("off", 0, []), ("bell", 1, []), ("osc9", 0, ["9;edgecron: broken failed"])],
)
def test_the_terminal_tells_of_a_new_failure_as_it_was_asked(
    environment: dict[str, str], tmp_path: Path, notify: str, bells: int, messages: list[str]
) -> None:
    gate = Gate(tmp_path)
    words = ("add", "broken", "--at", "in 1s", "--shell", f"{gate.line}; exit 7")
    subprocess.run([*PROGRAM, *words], env=environment, capture_output=True, check=True)
    daemon = Daemon(tmp_path / "edgecron.db")
    try:
        gate.wait_arrival()
        wanted = {**environment, "EDGECRON_DASHBOARD_NOTIFY": notify}
        with process_on_terminal(wanted, "tui", size=(120, 36)) as (outer, _):
            shown = read_until(outer, "1 running")
            gate.open()
            shown += read_until(outer, "0 running")
            os.write(outer, b"q")
            shown += read_until(outer, None)
    finally:
        daemon.close()
        gate.close()
    found = [text for text in _SEQUENCE.findall(shown) if text.startswith("9;")]
    assert found == messages
    assert _SEQUENCE.sub("", shown).count("\x07") == bells
