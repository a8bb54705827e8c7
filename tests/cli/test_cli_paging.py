"""Long texts in a pager: which one, what it finds, and where there is none."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
from pathlib import Path

import pytest

from edgecron.base.errors import EdgecronError
from edgecron.base.pager import page, pager_command
from tests.support.processes import BOUND_S, ends
from tests.support.program import PROGRAM
from tests.support.standins import found, script
from tests.support.terminal import on_terminal, process_on_terminal, read_until

BEGINS = "triggers: "


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    left_out = ("PAGER", "LESS", "LV", "SUDO_UID", "DOAS_USER", "PKEXEC_UID")
    own = {key: value for key, value in os.environ.items() if key not in left_out}
    return {**own, "TERM": "xterm-256color", "NO_COLOR": "1", "EDGECRON_DB": str(tmp_path / "db")}


# Somebody else's, whoever runs these tests.
OWN_UID, OTHER_UID = str(os.geteuid()), str(os.geteuid() + 1)
THROUGH_SUDO = {"SUDO_UID": OTHER_UID}
LENT = [THROUGH_SUDO, {"PKEXEC_UID": OTHER_UID}, {"DOAS_USER": "nobody"}, {"DOAS_USER": "no one"}]


@pytest.mark.parametrize(
    ("environ", "command"),
    [
        ({"PAGER": "less -S"}, ["less", "-S"]),
        ({"PAGER": "'/my pager'"}, ["/my pager"]),
        ({"PAGER": " "}, ["less"]),
        ({}, ["less"]),
    ],
)
def test_the_pager_is_the_one_that_was_set_else_less(
    environ: dict[str, str], command: list[str]
) -> None:
    assert pager_command(environ, which=found) == command


def test_without_less_it_is_more_and_without_any_it_is_said() -> None:
    assert pager_command({}, which=lambda name: "/x" if name == "more" else None) == ["more"]
    with pytest.raises(EdgecronError, match="no pager"):
        pager_command({}, which=lambda name: None)
    with pytest.raises(EdgecronError, match="PAGER is"):
        pager_command({"PAGER": "less '"}, which=found)


def test_a_pager_gets_the_text_and_signals_of_the_terminal_end_nothing_else(
    tmp_path: Path,
) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    program = script(tmp_path, f"kill -INT $PPID; kill -TERM $PPID; cat >{tmp_path}/got")

    try:
        page([program], "text\n")
    finally:
        signal.signal(signal.SIGTERM, before)

    assert (tmp_path / "got").read_text(encoding="utf-8") == "text\n"
    assert heard == [signal.SIGTERM]


def test_a_pager_that_reads_nothing_and_one_that_is_missing_do_no_harm(tmp_path: Path) -> None:
    page([script(tmp_path, "exit 0")], "x" * 1_000_000)
    with pytest.raises(EdgecronError, match="can't be started"):
        page([str(tmp_path / "missing")], "text")


def test_a_topic_is_paged_on_a_terminal(environment: dict[str, str], tmp_path: Path) -> None:
    pager = script(tmp_path, 'echo "paged by $LESS $LV"; grep -c .')

    with on_terminal({**environment, "PAGER": pager}, "help", "triggers") as outer:
        shown = read_until(outer, None)

    options, lines = shown.splitlines()
    assert options == "paged by FRX -c"
    assert int(lines) > 24


@pytest.mark.needs("less")
@pytest.mark.parametrize("words", [("triggers",), ("add",)])
def test_less_stays_while_there_is_more_than_a_screen(
    environment: dict[str, str], words: tuple[str, ...]
) -> None:
    with on_terminal(environment, "help", *words) as outer:
        first = read_until(outer, "\n:")
        os.write(outer, b"q")
        rest = read_until(outer, None)

    assert first.count("\n") <= 24
    assert "\n" not in rest.strip()


def test_who_has_told_less_what_to_do_is_obeyed(
    environment: dict[str, str], tmp_path: Path
) -> None:
    pager = script(tmp_path, 'echo "paged by $LESS $LV"')
    told = {**environment, "PAGER": pager, "LESS": "-S", "LV": "-l"}

    with on_terminal(told, "help", "triggers") as outer:
        shown = read_until(outer, None)

    assert shown.strip() == "paged by -S -l"


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"PAGER": "cat"}, ()),
        ({"TERM": "dumb"}, ()),
        ({"PATH": "/nowhere"}, ()),
        ({"PAGER": "/bin/false"}, ("--no-pager",)),
    ],
)
def test_where_there_is_no_pager_a_topic_is_printed(
    environment: dict[str, str], variables: dict[str, str], words: tuple[str, ...]
) -> None:
    with on_terminal({**environment, **variables}, "help", "triggers", *words) as outer:
        shown = read_until(outer, None)

    assert shown.startswith(BEGINS)
    assert shown.count("\n") > 24


def test_a_pager_that_is_missing_is_told_and_the_topic_printed(environment: dict[str, str]) -> None:
    with on_terminal({**environment, "PAGER": "/no/such"}, "help", "triggers") as outer:
        shown = read_until(outer, None)

    assert "warning: /no/such can't be started" in shown
    assert BEGINS in shown


# As `more` does: it spins on a terminal that has gone, unless it hears the hangup.
_SPINNING = "cat >/dev/null; echo $$ paging; while :; do sleep 0.05; done"


def test_a_hangup_ends_the_pager_and_then_the_program(
    environment: dict[str, str], tmp_path: Path
) -> None:
    pager = script(tmp_path, _SPINNING)

    with process_on_terminal({**environment, "PAGER": pager}, "help", "triggers") as (
        outer,
        process,
    ):
        shown = read_until(outer, "paging")
        pager_fd = os.pidfd_open(int(shown.split()[0]))
        process.send_signal(signal.SIGHUP)

        assert ends(pager_fd)
        assert process.wait(timeout=BOUND_S) == -signal.SIGHUP
    os.close(pager_fd)


ROOT = pwd.getpwuid(0).pw_name
SELF = pwd.getpwuid(os.geteuid()).pw_name


@pytest.mark.parametrize(
    "asker",
    [
        *({name: uid} for name in ("SUDO_UID", "PKEXEC_UID") for uid in ("", "0", OWN_UID)),
        *({"DOAS_USER": user} for user in ("", ROOT, SELF)),
    ],
)
def test_the_pager_of_root_itself_is_the_one_that_was_set(asker: dict[str, str]) -> None:
    environ = {"PAGER": "less -S", **asker}

    assert pager_command(environ, which=found) == ["less", "-S"]


@pytest.mark.parametrize("lent", LENT)
def test_through_sudo_no_pager_is_started(
    environment: dict[str, str], tmp_path: Path, lent: dict[str, str]
) -> None:
    own = script(tmp_path, f"touch {tmp_path}/ran")

    with on_terminal({**environment, **lent, "PAGER": own}, "help", "triggers") as outer:
        shown = read_until(outer, None)

    assert shown.startswith(BEGINS)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("words", [("triggers",), ("triggers", "--no-pager"), ("--json",)])
def test_what_is_no_terminal_sees_no_pager(
    environment: dict[str, str], words: tuple[str, ...]
) -> None:
    said = subprocess.run(
        [*PROGRAM, "help", *words],
        env={**environment, "PAGER": "/bin/false"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert said.stdout.startswith("[" if words == ("--json",) else BEGINS)
    assert said.stderr == ""
