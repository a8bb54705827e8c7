"""The files of service managers, read by the programs that are to read them."""

from __future__ import annotations

import plistlib
import re
import shlex
import subprocess
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

import pytest

import edgecron
from edgecron.base.errors import InvalidInput
from edgecron.cli.service_files import (
    Scope,
    Service,
    exec_line,
    is_ours,
    launchd_plist,
    openrc_script,
    procd_script,
    quoted,
    read_exec_line,
    strict_drop_in,
    systemd_unit,
    was_ours,
)
from tests.support.tools import need_tools

STRANGE = (
    "50% of $HOME",
    'a"b',
    "c\\d",
    "e'f",
    "%h",
    "$$",
    "--x=;",
    "ü",
    "`id`",
    "$(id)",
    "#g",
    "{}",
)
HOME = PurePosixPath("/Users/me")
SECURITY = Path(edgecron.__file__).parent / "cli" / "topics" / "security.md"


@pytest.fixture
def program(tmp_path: Path) -> str:
    """A program whose path is as odd as paths are; systemd looks whether it can be run."""
    path = tmp_path / "my 100% $HOME; edgecron"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def service(*program: str, scope: Scope = Scope.SYSTEM, **more: str) -> Service:
    return Service(program=program or ("/bin/true",), scope=scope, **more)


def analyze(*words: str, units: Path) -> subprocess.CompletedProcess[str]:
    need_tools("systemd-analyze")
    # Units of the machine have sockets in the runtime folder, so its path must be short.
    with TemporaryDirectory() as runtime:
        return subprocess.run(
            ["systemd-analyze", *words],
            capture_output=True,
            text=True,
            check=False,
            env={
                "SYSTEMD_UNIT_PATH": f"{units}:",
                "XDG_RUNTIME_DIR": runtime,
                "HOME": str(units),
                "PATH": "/usr/bin:/bin",
            },
        )


def write_units(wanted: Service, folder: Path, *, is_strict: bool) -> Path:
    unit = folder / f"{wanted.id}.service"
    unit.write_text(systemd_unit(wanted))
    if is_strict:
        drop_ins = folder / f"{unit.name}.d"
        drop_ins.mkdir()
        (drop_ins / "50-edgecron-strict.conf").write_text(strict_drop_in(wanted))
    return unit


@pytest.mark.parametrize("scope", Scope)
@pytest.mark.parametrize("is_strict", [False, True])
def test_systemd_finds_nothing_wrong_with_a_unit(
    tmp_path: Path, program: str, scope: Scope, is_strict: bool
) -> None:
    wanted = service(program, scope=scope, database="/srv/my 100% $data/e.db", name="plant-1.a")
    unit = write_units(wanted, tmp_path, is_strict=is_strict)

    said = analyze("verify", f"--{scope}", str(unit), units=tmp_path)

    assert (said.returncode, said.stderr) == (0, "")


def test_systemd_would_find_what_is_wrong(tmp_path: Path, program: str) -> None:
    unit = write_units(service(program), tmp_path, is_strict=False)
    unit.write_text(unit.read_text().replace("WatchdogSec=5min", "WatchdogSecs=5min"))

    assert "WatchdogSecs" in analyze("verify", str(unit), units=tmp_path).stderr


def exposure_of(unit: Path) -> float:
    said = analyze("security", "--offline=yes", "--no-pager", str(unit), units=unit.parent)
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", said.stdout)
    assert found, said.stdout + said.stderr
    return float(found[1])


@pytest.mark.parametrize(
    ("scope", "is_strict", "told"),
    [
        (Scope.SYSTEM, False, r"the machine's \| ([0-9.]+) \|"),
        (Scope.SYSTEM, True, r"the machine's \| [0-9.]+ \| ([0-9.]+) \|"),
        (Scope.USER, False, r"a user's \| ([0-9.]+) \|"),
        (Scope.USER, True, r"a user's \| [0-9.]+ \| ([0-9.]+) \|"),
    ],
)
def test_the_exposure_of_a_unit_is_what_help_security_says(
    scope: Scope, told: str, *, is_strict: bool, tmp_path: Path
) -> None:
    found = re.search(told, SECURITY.read_text(encoding="utf-8"))
    assert found

    measured = exposure_of(write_units(service(scope=scope), tmp_path, is_strict=is_strict))

    # Each version of systemd weighs a little differently.
    assert abs(measured - float(found[1])) <= 0.3


def test_a_unit_says_what_a_scheduler_needs() -> None:
    lines = systemd_unit(service()).splitlines()

    for line in (
        *("Type=notify", "WatchdogSec=5min", "KillMode=process", "OOMPolicy=continue"),
        *("Restart=always", "StateDirectory=edgecron", "StateDirectoryMode=0700"),
        *("WantedBy=multi-user.target", "ExecStart=/bin/true daemon"),
    ):
        assert line in lines


def test_systemd_makes_no_folder_for_a_user_or_for_a_database_elsewhere() -> None:
    assert "StateDirectory" not in systemd_unit(service(scope=Scope.USER))
    assert "StateDirectory" not in systemd_unit(service(database="/srv/e.db"))
    assert "ReadWritePaths=-/srv" in strict_drop_in(service(database="/srv/e.db"))
    assert "StateDirectory" in systemd_unit(service(database="/var/lib/edgecron/other.db"))


def test_who_watches_what_runs_is_spared_when_memory_runs_out_where_that_may_be() -> None:
    assert "OOMScoreAdjust=-500" in systemd_unit(service())
    assert "OOMScoreAdjust" not in systemd_unit(service(scope=Scope.USER))


def test_what_is_run_is_the_daemon_with_all_that_was_named() -> None:
    wanted = service(
        *("/usr/bin/python3", "-m", "edgecron"),
        database="/d.db",
        config="/c.toml",
        http="unix:/run/e.sock",
        token_file="/t",
    )

    assert wanted.words() == (
        *("/usr/bin/python3", "-m", "edgecron", "--config", "/c.toml", "--db", "/d.db", "daemon"),
        *("--http", "unix:/run/e.sock", "--token-file", "/t"),
    )


@pytest.mark.parametrize("word", STRANGE)
def test_words_come_back_out_of_a_unit(word: str) -> None:
    words = ("/bin/x", word, "plain", f"{word} {word}")

    assert read_exec_line(exec_line(words)) == words


def test_systemd_s_own_signs_are_no_signs_in_a_word() -> None:
    assert quoted("100%") == "100%%"
    assert quoted('a "b" \\c') == '"a \\"b\\" \\\\c"'
    assert exec_line(("/x", "$HOME")).startswith(":/x ")
    assert exec_line(("/x", "plain")) == "/x plain"


def test_words_that_no_file_can_hold_are_refused() -> None:
    for word in ("/a\nExecStart=/bin/evil", "/a\0b", "/a\x1b[2J", "/a\u202e"):
        with pytest.raises(InvalidInput, match="not allowed in a service file"):
            service("/bin/x", database=word)
    with pytest.raises(InvalidInput, match="systemd refuses"):
        exec_line(('/a"b', "daemon"))
    with pytest.raises(InvalidInput, match="not an absolute path"):
        service("edgecron")


@pytest.mark.parametrize("name", ["../x", "a/b", "a b", "%i", "-x", "x@y", "x" * 65, "é"])
def test_names_that_are_no_file_s_name_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="service name"):
        service(name=name)


@pytest.mark.parametrize("scope", Scope)
def test_a_property_list_is_one_and_holds_the_words(scope: Scope) -> None:
    wanted = service("/opt/<a> & b", scope=scope, database="/srv/]]>\"'.db", name="x")

    content = plistlib.loads(launchd_plist(wanted, home=HOME).encode())

    assert content["ProgramArguments"] == list(wanted.words())
    assert content["Label"] == "org.edgecron.x"
    assert content["AbandonProcessGroup"]
    assert content["KeepAlive"]
    log = "/Library/Logs/edgecron-x.log"
    assert content["StandardErrorPath"] == (log if scope is Scope.SYSTEM else f"{HOME}{log}")


@pytest.mark.needs("shellcheck")
@pytest.mark.parametrize("make", [openrc_script, procd_script])
def test_shells_find_nothing_wrong_with_a_script(make: object, tmp_path: Path) -> None:
    assert callable(make)
    script = tmp_path / "script"
    script.write_text(make(service("/usr/bin/edgecron", database=f"/srv/{' '.join(STRANGE)}")))

    for command in (
        ["sh", "-n", str(script)],
        # Of variables that the service manager reads; of `$` in a path, which stays so.
        ["shellcheck", "--shell=sh", "--exclude=SC2034,SC2016", str(script)],
    ):
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (said.returncode, said.stdout, said.stderr) == (0, "", ""), command


@pytest.mark.needs("shellcheck")
def test_shells_find_nothing_wrong_with_the_trial() -> None:
    trial = Path(__file__).parents[2] / "packaging/trials/systemd"

    for command in (["sh", "-n", str(trial)], ["shellcheck", str(trial)]):
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (said.returncode, said.stdout, said.stderr) == (0, "", ""), command


def test_procd_is_given_the_words_as_they_are(tmp_path: Path) -> None:
    wanted = service("/usr/bin/edge cron", database=f"/srv/{' '.join(STRANGE)}")
    stubs = (
        'procd_set_param() { [ "$1" != command ] || { shift; printf "%s\\n" "$@"; }; }\n'
        "procd_open_instance() { :; }\nprocd_close_instance() { :; }\n"
    )

    said = run_shell(stubs + procd_script(wanted) + "start_service\n")

    assert said.splitlines() == list(wanted.words())


def test_openrc_is_given_the_words_as_they_are() -> None:
    wanted = service("/usr/bin/edgecron", database=f"/srv/{' '.join(STRANGE)}")
    # As its supervise-daemon.sh has it.
    start = 'eval printf "\'%s\\n\'" "$command" $command_args\n'

    said = run_shell(openrc_script(wanted) + start)

    assert said.splitlines() == list(wanted.words())


def test_openrc_can_not_take_a_program_whose_path_has_spaces() -> None:
    with pytest.raises(InvalidInput, match="OpenRC"):
        openrc_script(service("/opt/my edgecron"))


def run_shell(script: str) -> str:
    said = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert said.stderr == "", shlex.quote(script)
    return said.stdout


def test_a_text_knows_whether_it_was_changed() -> None:
    texts = [
        systemd_unit(service()),
        strict_drop_in(service()),
        launchd_plist(service(), home=HOME),
    ]

    for text in texts:
        assert is_ours(text)
        changed = text + "\n# mine\n"
        assert not is_ours(changed)
        assert was_ours(changed)
    assert not was_ours("[Service]\n")
