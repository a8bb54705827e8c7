"""Installed, installed again, changed by hand, removed: files below a folder, by the real program;
and what a service manager would be asked, as plans."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import edgecron
from edgecron.base.errors import Conflict, InvalidInput
from edgecron.cli.service_files import Manager, Scope, Service, strict_drop_in, systemd_unit
from edgecron.cli.service_machine import (
    carry_out,
    check_program,
    find_binary,
    find_manager,
    find_program,
    read_texts,
    warn_of_weakness,
)
from edgecron.cli.service_plan import (
    Call,
    FileChanged,
    Places,
    Remove,
    Step,
    Texts,
    UnitState,
    Wish,
    WriteFile,
    plan_launchd_install,
    plan_launchd_uninstall,
    plan_systemd_install,
    plan_systemd_uninstall,
)
from edgecron.cli.session import Session
from tests.support.accounts import as_root
from tests.support.cli import Said

UNIT = "etc/systemd/system/edgecron.service"
STRICT = "etc/systemd/system/edgecron.service.d/50-edgecron-strict.conf"
RUNNING = UnitState(active="active (running)", enabled="enabled", pid=7, says=None)
ABSENT = UnitState(active="inactive (dead)", enabled="not installed", pid=None, says=None)


class Image:
    """The image of a machine, as a folder."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "image"
        self.root.mkdir()

    def do(self, *words: str) -> Said:
        options = ("--root", str(self.root), "--for", "systemd", "--system")
        said = subprocess.run(
            [sys.executable, "-m", "edgecron", "service", *words, *options],
            capture_output=True,
            text=True,
            check=False,
        )
        return Said(code=said.returncode, out=said.stdout, err=said.stderr)

    def files(self) -> list[str]:
        paths = [path for path in self.root.rglob("*") if not path.is_dir() or path.is_symlink()]
        return sorted(str(path.relative_to(self.root)) for path in paths)


@pytest.fixture
def image(tmp_path: Path) -> Image:
    return Image(tmp_path)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(root=tmp_path, home=tmp_path / "home", config_home=tmp_path / "home/.config")


def wish(**more: Any) -> Wish:
    service = more.pop("service", Service(program=("/usr/bin/edgecron",), scope=Scope.SYSTEM))
    return Wish(service=service, **more)


def calls(steps: list[Step]) -> list[str]:
    return [" ".join(step.argv) for step in steps if isinstance(step, Call)]


def test_a_service_is_written_enabled_and_removed_again_with_all_that_is_its(image: Image) -> None:
    said = image.do("install", "--strict", "--program", "/usr/bin/edgecron")

    assert said.code == 0, said.err
    wants = "etc/systemd/system/multi-user.target.wants/edgecron.service"
    assert image.files() == sorted([UNIT, STRICT, wants])
    assert (image.root / wants).resolve() == (image.root / UNIT).resolve()
    assert "ExecStart=/usr/bin/edgecron" in said.out
    assert (image.root / UNIT).stat().st_mode & 0o777 == 0o644

    assert image.do("uninstall").code == 0
    assert image.files() == []
    assert [path.name for path in (image.root / "etc/systemd/system").iterdir()] == []
    assert "service edgecron is not installed" in image.do("uninstall").err


def test_a_dry_run_shows_all_and_does_nothing(image: Image) -> None:
    said = image.do("install", "--dry-run", "--json")

    acts = json.loads(said.out)
    assert [act["act"] for act in acts] == ["write", "link"]
    assert acts[0]["path"] == str(image.root / UNIT)
    assert "[Service]" in acts[0]["text"]
    assert image.files() == []


def test_to_install_again_does_nothing_or_what_has_changed(image: Image) -> None:
    image.do("install")
    before = (image.root / UNIT).stat().st_mtime_ns

    assert "is already installed" in image.do("install").err
    assert (image.root / UNIT).stat().st_mtime_ns == before

    said = image.do("install", "--http")
    assert said.code == 0
    assert "+ExecStart=" in said.out
    assert "--http 127.0.0.1:8745" in (image.root / UNIT).read_text()


def test_what_a_person_changed_is_shown_and_kept(image: Image) -> None:
    image.do("install")
    unit = image.root / UNIT
    unit.write_text(unit.read_text().replace("WatchdogSec=5min", "WatchdogSec=1h"))

    for words in (("install", "--http"), ("uninstall",)):
        said = image.do(*words)
        assert said.code == 1
        assert "was changed since edgecron wrote it" in said.err
        assert "--force" in said.err
    assert "-WatchdogSec=1h" in image.do("install").out
    details = image.do("install", "--json").error
    assert details["code"] == "file_changed"
    assert "-WatchdogSec=1h" in details["diff"]
    assert "WatchdogSec=1h" in unit.read_text()

    assert image.do("install", "--force").code == 0
    assert "WatchdogSec=5min" in unit.read_text()


def test_a_unit_of_somebody_else_is_not_taken_for_ours(image: Image) -> None:
    unit = image.root / UNIT
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\nExecStart=/bin/true\n")

    assert "was not written by edgecron" in image.do("install").err
    assert "was not written by edgecron" in image.do("uninstall").err
    assert unit.read_text() == "[Service]\nExecStart=/bin/true\n"


def test_drop_ins_of_people_are_never_touched(image: Image) -> None:
    mine = image.root / "etc/systemd/system/edgecron.service.d/override.conf"
    image.do("install", "--strict")
    mine.write_text("[Service]\nNice=5\n")

    image.do("install", "--force")
    image.do("uninstall", "--force")

    assert image.files() == [str(mine.relative_to(image.root))]
    assert mine.read_text() == "[Service]\nNice=5\n"


def test_several_have_names_and_databases_of_their_own(image: Image) -> None:
    assert "a database of its own" in image.do("install", "--name", "plant").err
    image.do("install")
    image.do("install", "--name", "plant", "--db", "/srv/plant.db")

    assert (image.root / "etc/systemd/system/edgecron-plant.service").exists()
    status = image.do("status", "--name", "plant", "--json").json[0]
    assert status["database"] == "/srv/plant.db"
    image.do("uninstall", "--name", "plant")
    assert (image.root / UNIT).exists()


def test_status_says_what_is_there_where_no_systemd_runs(image: Image) -> None:
    absent = image.do("status")
    assert absent.code == 3
    assert "not installed" in absent.out
    image.do("install", "--program", "/usr/bin/edgecron", "--db", str(image.root / "e.db"))

    said = image.do("status")
    facts = image.do("status", "--json").json[0]

    assert said.code == 1  # no engine is alive
    assert "systemd does not run here" in said.out
    assert facts["file"] == str(image.root / UNIT)
    assert facts["program"] == "/usr/bin/edgecron"
    assert facts["enabled"] == "enabled"
    assert facts["changed"] is False
    assert facts["engine_alive"] is False


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("start",), "expected install, uninstall, status or print"),
        (("install", "--user"), "expected one of them"),
        (("install", "--linger"), "--linger only works with --user"),
        (("install", "--token-file", "/t"), "--http"),
        (("install", "--program", "edgecron"), "not an absolute path"),
        (("status", "--force"), "--force does not work with status"),
        (("uninstall", "--http"), "--http does not work with uninstall"),
        (("install", "--name", "../x", "--db", "/x.db"), "service name"),
        (("install", "--http", "nonsense"), "expected HOST:PORT or unix:PATH"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(
    image: Image, words: tuple[str, ...], message: str
) -> None:
    said = image.do(*words)

    assert said.code == 2
    assert message in said.err
    assert image.files() == []


def test_what_the_shell_knows_and_a_service_does_not_is_put_into_its_file(
    image: Image, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(edgecron.__file__).parents[2]))
    monkeypatch.setenv("EDGECRON_DB", "named.db")
    monkeypatch.setenv("EDGECRON_CONFIG", "my.toml")
    (tmp_path / "my.toml").touch(mode=0o600)

    image.do("install", "--program", "/usr/bin/edgecron", "--http", "unix:my.sock")

    config, database, socket = (tmp_path / name for name in ("my.toml", "named.db", "my.sock"))
    line = (
        f"ExecStart=/usr/bin/edgecron --config {config} --db {database} daemon --http unix:{socket}"
    )
    assert line in (image.root / UNIT).read_text()


def test_a_service_is_of_this_machine_and_of_no_other(image: Image) -> None:
    for action in ("install", "status", "print"):
        said = subprocess.run(
            [sys.executable, "-m", "edgecron", "--url", "http://far:1", "service", action],
            capture_output=True,
            text=True,
            check=False,
        )
        assert said.returncode == 1
        assert "http://far:1" in said.stderr
    assert image.files() == []


def test_openrc_and_procd_get_their_file_by_print_alone(image: Image) -> None:
    for manager in ("openrc", "procd"):
        said = image.do("install", "--for", manager)
        # The later --for of `do` is systemd's.
        assert said.code == 0
    refused = subprocess.run(
        [sys.executable, "-m", "edgecron", "service", "install", "--for", "openrc", "--root", "/x"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "service print --for openrc" in refused.stderr
    assert refused.returncode == 1


def test_a_running_systemd_is_told_in_order(places: Places) -> None:
    steps = plan_systemd_install(wish(), places, {}, is_live=True, state=ABSENT)

    assert isinstance(steps[0], WriteFile)
    assert calls(steps) == [
        "systemctl daemon-reload",
        "systemctl enable edgecron.service",
        "systemctl restart edgecron.service",
    ]


def test_a_service_that_is_as_it_should_be_is_not_restarted(places: Places) -> None:
    seen = {places.unit(wish().service): systemd_unit(wish().service)}

    assert plan_systemd_install(wish(), places, seen, is_live=True, state=RUNNING) == []
    stopped = UnitState(active="failed (Result)", enabled="enabled", pid=None, says=None)
    steps = plan_systemd_install(wish(), places, seen, is_live=True, state=stopped)
    assert calls(steps) == ["systemctl restart edgecron.service"]


def test_a_user_s_service_is_the_user_s_and_may_linger(places: Places) -> None:
    service = Service(program=("/usr/bin/edgecron",), scope=Scope.USER)
    mine = wish(service=service, linger_user="me")

    steps = plan_systemd_install(mine, places, {}, is_live=True, state=ABSENT)

    assert calls(steps)[-1] == "loginctl enable-linger me"
    assert calls(steps)[0] == "systemctl --user daemon-reload"
    assert isinstance(steps[0], WriteFile)
    assert steps[0].path == places.config_home / "systemd/user/edgecron.service"


def test_the_very_unit_of_a_package_is_used_and_another_one_not_hidden(places: Places) -> None:
    packaged = places.packaged_units(wish().service)[1]
    text = systemd_unit(wish().service).partition("[Unit]\n")[2]
    same = {packaged: f"[Unit]\nDocumentation=man:edgecron(1)\n{text}"}
    other = {packaged: "[Service]\nExecStart=/usr/bin/edgecron daemon\n"}

    steps = plan_systemd_install(wish(), places, same, is_live=True, state=ABSENT)
    assert calls(steps) == [
        "systemctl enable edgecron.service",
        "systemctl restart edgecron.service",
    ]
    assert len(steps) == 2
    with pytest.raises(Conflict, match="would hide a package's unit"):
        plan_systemd_install(wish(), places, other, is_live=True, state=ABSENT)


def test_what_is_removed_is_stopped_first_and_forgotten_after(places: Places) -> None:
    seen = {places.unit(wish().service): systemd_unit(wish().service)}

    steps = plan_systemd_uninstall(wish(), places, seen, is_live=True, state=RUNNING)

    assert [type(step).__name__ for step in steps] == ["Call", "Remove", "Call", "Call"]
    assert calls(steps)[0] == "systemctl disable --now edgecron.service"


@pytest.mark.parametrize("active", ["active (running)", "activating (auto-restart)", "failed (x)"])
def test_what_is_left_of_a_unit_that_somebody_removed_is_stopped_and_forgotten(
    places: Places, active: str
) -> None:
    service = wish().service
    places.wants(service).parent.mkdir(parents=True)
    places.wants(service).symlink_to("../edgecron.service")
    strict = places.strict_drop_in(service)
    seen = {strict: strict_drop_in(service)}
    state = UnitState(active=active, enabled="not installed", pid=7, says=None)

    steps = plan_systemd_uninstall(wish(), places, seen, is_live=True, state=state)

    assert calls(steps) == [
        "systemctl stop edgecron.service",
        "systemctl daemon-reload",
        "systemctl reset-failed edgecron.service",
    ]
    removed = [step.path for step in steps if isinstance(step, Remove) and not step.is_folder]
    assert removed == [places.wants(service), strict]


def test_nothing_is_done_where_nothing_is_left(places: Places) -> None:
    assert plan_systemd_uninstall(wish(), places, {}, is_live=True, state=ABSENT) == []


def test_a_service_whose_unit_somebody_removed_leaves_nothing_either(image: Image) -> None:
    image.do("install", "--strict")
    (image.root / UNIT).unlink()

    said = image.do("uninstall")

    assert said.code == 0
    assert "edgecron has been removed" in said.err
    assert f"remove  {image.root / STRICT}" in said.out
    assert image.files() == []
    assert [path.name for path in (image.root / "etc/systemd/system").iterdir()] == []


def test_launchd_is_told_in_order(tmp_path: Path) -> None:
    path, text = tmp_path / "org.edgecron.daemon.plist", "<plist/>"

    def install(seen: Texts, *, is_loaded: bool) -> list[str]:
        return calls(
            plan_launchd_install(
                wish(is_forced=True), path, seen, text=text, domain="gui/501", is_loaded=is_loaded
            )
        )

    begin = [
        "launchctl enable gui/501/org.edgecron.daemon",
        f"launchctl bootstrap gui/501 {path}",
    ]
    assert install({}, is_loaded=False) == begin
    assert install({path: text}, is_loaded=True) == []
    out = "launchctl bootout gui/501/org.edgecron.daemon"
    assert install({path: "older"}, is_loaded=True) == [out, *begin]
    gone = plan_launchd_uninstall(
        wish(is_forced=True), path, {path: text}, domain="gui/501", is_loaded=True
    )
    assert calls(gone) == [out]
    assert len(gone) == 2


def test_a_command_that_fails_ends_a_plan_and_says_what_it_said(tmp_path: Path) -> None:
    written = WriteFile(path=tmp_path / "later", text="", before=None)
    failing = Call(argv=("sh", "-c", "echo no bus >&2; exit 1"))
    told: list[Step] = []

    with pytest.raises(Exception, match="no bus"):
        carry_out([failing, written], tell=told.append)

    assert told == [failing]
    carry_out([Call(argv=("false",), may_fail=True), written], tell=told.append)
    assert read_texts([written.path])[written.path] == ""


def test_who_runs_services_is_told_by_what_is_there(tmp_path: Path) -> None:
    assert find_manager(root=tmp_path) is None
    (tmp_path / "sbin").mkdir()
    (tmp_path / "sbin/procd").touch()
    assert find_manager(root=tmp_path) is Manager.PROCD
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    assert find_manager(root=tmp_path) is Manager.SYSTEMD


def test_a_program_is_named_as_it_was_started_links_and_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, shim = tmp_path / "venvs/edgecron/bin/edgecron", tmp_path / "bin/edgecron"
    for path in (real, shim):
        path.parent.mkdir(parents=True)
    real.write_text("#!/bin/sh\n")
    real.chmod(0o755)
    shim.symlink_to(real)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(shim.parent))

    assert find_program(str(shim), executable="/py") == (str(shim),)
    assert find_program("edgecron", executable="/py") == (str(shim),)
    assert find_program("bin/../bin/edgecron", executable="/py") == (str(shim),)
    module = ("/py", "-m", "edgecron")
    assert find_program("/x/edgecron/__main__.py", executable="/py") == module
    assert find_program("/gone", executable="/py") == module


def test_a_single_binary_is_named_by_the_link_that_it_was_started_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, link = tmp_path / "opt/edgecron-1", tmp_path / "bin/edgecron"
    for path in (first, link):
        path.parent.mkdir()
    first.touch(mode=0o755)
    link.symlink_to(first)
    (tmp_path / "other").touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "bin")

    def named(argv0: str) -> str:
        return find_binary(argv0, file=str(first), is_roots=False)

    assert named(str(link)) == named("edgecron") == named("bin/../bin/edgecron") == str(link)
    for argv0 in ("opt/edgecron-1", "other", "no-such", "bin/no-such", ""):
        assert named(argv0) == str(first)
    with pytest.raises(InvalidInput, match="removed or replaced while it ran"):
        find_binary(str(link), file="", is_roots=False)


@as_root
@pytest.mark.failure(63)
def test_root_s_single_binary_is_not_named_by_a_link_that_others_may_turn(tmp_path: Path) -> None:
    file, link, others = tmp_path / "edgecron-1", tmp_path / "edgecron", tmp_path / "others"
    file.touch(mode=0o755)
    link.symlink_to(file)
    others.mkdir()
    others.chmod(0o777)
    (others / "edgecron").symlink_to(file)
    (tmp_path / "through").symlink_to(others / "edgecron")

    def named(path: Path) -> str:
        return find_binary(str(path), file=str(file), is_roots=True)

    assert named(link) == str(link)
    assert named(others / "edgecron") == named(tmp_path / "through") == str(file)


def test_a_program_is_tried_as_a_service_manager_will_start_it(tmp_path: Path) -> None:
    def program(name: str, text: str) -> str:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    check_program((program("good", "echo edgecron 1.2.3"),), version="1.2.3")
    for name, text, message in (
        ("older", "echo edgecron 1.0", "is edgecron 1.0"),
        ("other", "echo hello", "not an edgecron that runs by itself: hello"),
        ("broken", "echo 'No module named edgecron' >&2; exit 1", "No module named edgecron"),
        (
            "leaning",
            '[ -n "$PYTHONPATH" ] && echo edgecron 1.2.3',
            "not an edgecron that runs by itself",
        ),
    ):
        with pytest.raises(InvalidInput, match=message):
            check_program((program(name, text),), version="1.2.3")
    with pytest.raises(InvalidInput, match="can't be started"):
        check_program((str(tmp_path / "missing"),), version="1.2.3")


@pytest.mark.failure(63)
def test_a_program_that_others_can_change_is_named_before_root_runs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "edgecron"
    program.touch()
    program.chmod(0o777)

    for path in (program, Path(os.path.realpath("/bin/sh"))):
        warn_of_weakness(Session(), Service(program=(str(path),), scope=Scope.SYSTEM))

    said = capsys.readouterr().err
    assert said.count("root will run") == 1
    assert f"root will run {program}, but " in said


def test_a_changed_file_is_an_error_with_its_difference(places: Places) -> None:
    path = places.unit(wish().service)
    with pytest.raises(FileChanged) as caught:
        plan_systemd_install(wish(), places, {path: "mine\n"}, is_live=True, state=RUNNING)
    assert "-mine" in caught.value.diff
