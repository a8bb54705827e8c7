"""The launcher of the single binary: unpacked once, whole or not at all, for its user alone."""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.binary.bundles import Binary, small_files, wait_for_lock
from tests.binary.conftest import Make
from tests.support.processes import BOUND_S
from tests.support.tools import private_mounts


def test_the_second_start_writes_nothing(binary: Binary) -> None:
    first = binary.run("hello")
    before = binary.snapshot()

    second = binary.run("hello", "again")

    assert (first.returncode, first.stdout, first.stderr) == (0, "hello\n", "")
    assert second.stdout == "hello again\n"
    assert binary.snapshot() == before


_BY_DESCRIPTOR = """
import os, sys
os.closerange(3, 100)
fd = os.open(sys.argv[1], os.O_RDONLY)
assert fd == 3
os.set_inheritable(fd, sys.argv[2] == "inherited")
os.execv(f"/proc/self/fd/{fd}", ["edgecron", "hello"])
"""


@pytest.mark.parametrize("how", ["inherited", "closed by exec"])
def test_it_may_be_started_by_a_descriptor_of_its_file(binary: Binary, how: str) -> None:
    """Where exec has closed that, its number is free for the first file that the launcher opens."""
    said = subprocess.run(
        [sys.executable, "-c", _BY_DESCRIPTOR, binary.path, how],
        env=binary.environment(),
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )

    assert (said.returncode, said.stdout, said.stderr) == (0, "hello\n", "")


@pytest.mark.failure(62)
def test_what_it_unpacks_is_for_its_user_alone(binary: Binary) -> None:
    subprocess.run(
        ["sh", "-c", f"umask 000; {binary.path} x"], env=binary.environment(), check=True
    )

    modes = {
        path: path.stat().st_mode & 0o077 for path in (binary.program, *binary.program.rglob("*"))
    }

    assert len(modes) > 5
    assert set(modes.values()) == {0}


def test_many_first_starts_at_once_all_succeed_and_leave_one_folder(binary: Binary) -> None:
    starts = [binary.start("where") for _ in range(12)]

    said = [start.communicate(timeout=BOUND_S) for start in starts]

    assert {start.returncode for start in starts} == {0}
    assert said == [(f"{binary.versions()[0]}\n", "")] * 12
    assert len(binary.versions()) == 1


@pytest.mark.failure(15)
def test_killed_while_it_unpacks_nothing_of_it_is_used_and_the_next_start_clears_it_away(
    binary: Binary, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    killed = binary.start("hello", TRY=str(gate))
    # It opens for writing when the program is there to be tried: all is written by then.
    gate_fd = os.open(gate, os.O_WRONLY)
    killed.kill()
    os.close(gate_fd)
    killed.communicate(timeout=BOUND_S)
    [left] = binary.versions()
    assert left.name.startswith(".new-")

    said = binary.run("hello")

    assert said.stdout == "hello\n"
    assert [path.name[:6] for path in binary.versions()] == ["1.0.0-"]


@pytest.mark.parametrize("damage", ["removed", "cut short"])
def test_a_file_that_is_not_whole_is_put_back(binary: Binary, damage: str) -> None:
    binary.run("hello")
    [folder] = binary.versions()
    file = folder / "_internal" / "lib" / "one.so"
    if damage == "removed":
        shutil.rmtree(file.parent)
    else:
        os.truncate(file, 5)

    said = binary.run("hello")

    assert said.stdout == "hello\n"
    assert file.read_text() == "one" * 1000
    assert binary.versions() == [folder]


def test_what_a_package_has_installed_is_started_and_nothing_is_unpacked(
    binary: Binary, launcher: bytes, tmp_path: Path
) -> None:
    """As packaging/deb/build makes it: the launcher, the folder of the program, and no payload."""
    binary.run("hello")
    [folder] = binary.versions()
    installed = (tmp_path / "lib").resolve() / "1.0.0"
    shutil.copytree(folder, installed)
    shutil.rmtree(binary.places)
    place = str(installed).encode()
    trailer = (b"edgecron bundle", len(launcher), 0, len(place), 0, b"1.0.0")
    binary.path.write_bytes(launcher + place + struct.pack("<16sQQQQ64s", *trailer))

    said = binary.run("where")
    shutil.rmtree(installed)
    gone = binary.run("hello")

    assert (said.returncode, said.stdout, said.stderr) == (0, f"{installed}\n", "")
    assert not binary.places.exists()
    assert gone.returncode == 125
    assert f"{installed} can't be started" in gone.stderr.splitlines()[0]
    assert "apt-get install --reinstall edgecron" in gone.stderr


def boot_again(binary: Binary) -> None:
    """Let the next start be the first after a boot."""
    for folder in binary.versions():
        (folder / ".checked").write_text("00000000-0000-0000-0000-000000000000")


@pytest.mark.parametrize("name", ["edgecron", "_internal/lib/one.so"])
def test_a_file_of_the_right_size_with_wrong_bytes_is_replaced_at_the_next_boot(
    binary: Binary, name: str
) -> None:
    binary.run("hello")
    [folder] = binary.versions()
    right = (folder / name).read_bytes()
    (folder / name).write_bytes(bytes(len(right)))

    boot_again(binary)
    said = binary.run("hello")

    assert (said.returncode, said.stdout, said.stderr) == (0, "hello\n", "")
    assert (folder / name).read_bytes() == right
    assert binary.versions() == [folder]


def test_a_check_happens_once_in_a_boot_and_replaces_nothing_that_is_right(binary: Binary) -> None:
    binary.run("hello")
    [folder] = binary.versions()
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".checked"]
    before = {path: path.stat().st_ino for path in files}

    boot_again(binary)
    binary.run("hello")
    after_check = binary.snapshot()
    binary.run("hello")

    assert {path: path.stat().st_ino for path in files} == before
    assert binary.snapshot() == after_check


@pytest.mark.parametrize("name", ["edgecron", "_internal/two.so"])
def test_self_checks_each_time_so_that_it_works_with_wrong_bytes(make: Make, name: str) -> None:
    binary = make(**{"_internal/two.so": "two"})
    binary.run("hello")
    [folder] = binary.versions()
    right = (folder / name).read_bytes()
    (folder / name).write_bytes(bytes(len(right)))

    said = binary.run("self", "remove")

    assert (said.returncode, said.stdout, said.stderr) == (0, "self remove\n", "")
    assert (folder / name).read_bytes() == right


@pytest.mark.parametrize(
    ("hidden", "reason"),
    [
        ("/proc", "/proc is not mounted here"),
        ("/lib64", "this system has no glibc (/lib64/ld-linux-x86-64.so.2 is missing)"),
    ],
)
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="knows the loader of x86-64")
def test_on_a_system_that_can_not_run_it_the_reason_is_the_first_line(
    binary: Binary, tmp_path: Path, hidden: str, reason: str
) -> None:
    """The launcher is linked statically: it runs where nothing else does."""
    fenced = f"mount -t tmpfs tmpfs {os.path.realpath(hidden)} && exec {binary.path} hello"

    said = subprocess.run(
        [*private_mounts(), "sh", "-c", fenced],
        env=binary.environment(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert said.returncode == 125
    assert said.stderr.startswith(f"edgecron: {reason}")
    assert "glibc 2.31 or newer" in said.stderr.splitlines()[-1]
    assert not binary.places.exists()


@pytest.mark.parametrize(
    ("complaint", "reason"),
    [
        (
            "/x/edgecron: libc.so.6: version `GLIBC_2.36' not found",
            "this system's glibc is older than 2.31",
        ),
        (
            "Error loading shared library libz.so.1: No such file or directory (needed by /x)",
            "this system has musl instead of glibc: install it with pip instead",
        ),
        (
            "Error relocating /x/edgecron: gnu_get_libc_version: symbol not found",
            "this system has musl instead of glibc: install it with pip instead",
        ),
        ("symbol not found", "symbol not found"),
    ],
)
def test_a_program_that_a_system_is_too_old_for_is_tried_in_one_place_only(
    pack: ModuleType, launcher: bytes, tmp_path: Path, complaint: str, reason: str
) -> None:
    lines = (
        f"echo tried >>{tmp_path}/tried",
        f"printf '%s' {shlex.quote(complaint)} >&2",
        "exit 1",
    )
    program = "\n".join(["#!/bin/sh", *lines, ""])
    content = pack.packed(
        small_files(pack, program=program), launcher=launcher, version="1.0.0", level=1
    )
    binary = Binary(tmp_path / "edgecron", content=content, places=tmp_path / "places")
    environment = binary.environment(HOME=str(tmp_path), XDG_CACHE_HOME=str(tmp_path / "cache"))
    del environment["EDGECRON_UNPACK_DIR"]
    folders = [*private_mounts(), "sh", "-c"]
    mounts = "for each in /var/cache /var/lib /var/tmp; do mount -t tmpfs tmpfs $each; done"

    said = subprocess.run(
        [*folders, f"{mounts}; exec {binary.path} hello"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert said.returncode == 125
    assert said.stderr.splitlines()[0] == f"edgecron: {reason}"
    assert len((tmp_path / "tried").read_text().splitlines()) == 1


@pytest.mark.parametrize("gone", ["the place", "its lock"])
def test_a_start_whose_place_is_removed_while_it_waits_makes_another_one(
    binary: Binary, gone: str
) -> None:
    binary.program.mkdir(parents=True, mode=0o700)
    lock = binary.program / ".lock"
    held_fd = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(held_fd, fcntl.LOCK_EX)
    waiting = binary.start("hello")
    wait_for_lock(waiting)

    lock.unlink()
    if gone == "the place":
        binary.program.rmdir()
        binary.places.rmdir()
    else:  # and somebody begins to unpack under a new one
        new_fd = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(new_fd, fcntl.LOCK_EX)
    os.close(held_fd)
    if gone == "its lock":
        wait_for_lock(waiting)
        assert binary.versions() == []
        os.close(new_fd)
    said, error = waiting.communicate(timeout=BOUND_S)

    assert (waiting.returncode, said, error) == (0, "hello\n", "")


def test_a_new_version_removes_an_old_one_whose_file_was_replaced(make: Make) -> None:
    make("1.0.0").run("hello")

    new = make("1.1.0")
    new.run("hello")

    assert [path.name[:6] for path in new.versions()] == ["1.1.0-"]


def test_an_old_version_stays_as_long_as_a_process_runs_from_it(make: Make) -> None:
    old = make("1.0.0")
    running = old.start("hold")
    assert running.stdout is not None
    running.stdout.readline()
    new = make("1.1.0", name="other")
    old.path.unlink()

    new.run("hello")

    assert [path.name[:6] for path in new.versions()] == ["1.0.0-", "1.1.0-"]
    running.communicate("go\n", timeout=BOUND_S)
    make("1.2.0", name="third").run("hello")
    assert [path.name[:6] for path in new.versions()] == ["1.1.0-", "1.2.0-"]


def test_two_versions_whose_files_are_both_there_do_not_remove_each_other(make: Make) -> None:
    old, new = make("1.0.0"), make("1.1.0", name="other")
    for binary in (old, new):
        binary.run("hello")
    before = old.snapshot()

    for binary in (old, new, old):
        binary.run("hello")

    assert old.snapshot() == before
    assert len(old.versions()) == 2


def test_the_lock_of_a_folder_is_shared_by_whoever_runs_from_it(binary: Binary) -> None:
    running = [binary.start("hold") for _ in range(2)]
    for one in running:
        assert one.stdout is not None
        one.stdout.readline()
    fd = os.open(binary.versions()[0], os.O_RDONLY)

    running[0].communicate("go\n", timeout=BOUND_S)
    with pytest.raises(BlockingIOError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    running[1].communicate("go\n", timeout=BOUND_S)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(fd)


@pytest.mark.failure(64)
def test_the_users_own_loader_variables_are_left_as_they_are(binary: Binary) -> None:
    said = binary.run("environment", LD_LIBRARY_PATH="/opt/mine", _PYI_ARCHIVE_FILE="/of/another")

    lines = said.stdout.splitlines()
    assert "LD_LIBRARY_PATH=/opt/mine" in lines
    assert "_PYI_ARCHIVE_FILE=/of/another" not in lines
    assert {line for line in lines if line.startswith("LD_LIBRARY_PATH_")} == set()


@pytest.mark.failure(63)
@pytest.mark.parametrize(
    ("trap", "words"),
    [
        ("link", "a link or file stands there"),
        ("file", "a link or file stands there"),
        ("open", "others may write to it: chmod go-w"),
    ],
)
def test_a_place_that_others_may_have_prepared_is_refused(
    binary: Binary, tmp_path: Path, trap: str, words: str
) -> None:
    binary.places.mkdir()
    if trap == "link":
        (tmp_path / "elsewhere").mkdir()
        binary.program.symlink_to(tmp_path / "elsewhere")
    elif trap == "file":
        binary.program.touch()
    else:
        binary.places.chmod(0o777)

    said = binary.run("hello")

    assert said.returncode == 125
    assert f"  {binary.places}: {words}\n" in said.stderr
    assert "EDGECRON_UNPACK_DIR=/path" in said.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("noexec,mode=700", "it is mounted noexec: no program can be run there"),
        ("size=64k,mode=700", "no space left: it takes 1 MB"),
        ("ro", "Read-only file system"),
    ],
)
@pytest.mark.failure(51)
def test_where_the_place_that_was_named_can_not_have_it_the_reason_is_told(
    make: Make, options: str, words: str
) -> None:
    binary = make(**{"_internal/large": "0123456789" * 20_000})
    binary.places.mkdir()
    script = (
        f"mount -t tmpfs -o {options} tmpfs {binary.places} &&"
        f" {{ {binary.path} hello; echo code $?; }}"
    )

    said = subprocess.run(
        [*private_mounts(), "sh", "-c", script],
        env=binary.environment(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert said.stdout == "code 125\n"
    assert f"  {binary.places}: {words}\n" in said.stderr


# Root's places, in their order: of the machine, and in a namespace of their own.
PLACES = ("/var/cache", "/var/lib", "/var/tmp")
FOLDERS = ("/var/cache/edgecron", "/var/lib/edgecron", "/var/tmp/edgecron-0")
UNFIT = {"noexec": "noexec", "full": "size=64k", "read-only": "ro"}


def run_with_places(binary: Binary, mounts: dict[str, str], script: str) -> tuple[str, str]:
    """What a shell prints and says that runs `script` where these folders have such mounts."""
    environment = binary.environment()
    del environment["EDGECRON_UNPACK_DIR"]
    made = [f"mount -t tmpfs -o {options} tmpfs {place}" for place, options in mounts.items()]
    said = subprocess.run(
        [*private_mounts(), "sh", "-c", " && ".join([*made, script])],
        env=environment,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    return said.stdout, said.stderr


@pytest.mark.failure(51)
@pytest.mark.parametrize("unfit", UNFIT)
@pytest.mark.parametrize("count", [1, 2])
def test_where_a_place_can_not_have_it_the_next_one_does_in_silence(
    make: Make, unfit: str, count: int
) -> None:
    binary = make(**{"_internal/large": "0123456789" * 20_000})
    mounts = {
        place: UNFIT[unfit] if number < count else "size=10m" for number, place in enumerate(PLACES)
    }
    script = (
        f"{binary.path} where; {binary.path} where; ls -A {' '.join(FOLDERS[:count])} | grep -c ^1"
    )

    said, error = run_with_places(binary, mounts, script)

    first, second, left = said.splitlines()
    assert first == second
    assert first.startswith(f"{FOLDERS[count]}/program/1.0.0-")
    assert left == "0"
    assert [line for line in error.splitlines() if not line.startswith("ls:")] == []


@pytest.mark.failure(51)
def test_where_no_place_can_have_it_each_is_named_with_its_reason(make: Make) -> None:
    binary = make(**{"_internal/large": "0123456789" * 20_000})
    mounts = {"/run": "mode=755", "/var/cache": "noexec", "/var/lib": "size=64k", "/var/tmp": "ro"}
    # This binary lies in one of the other two.
    keep = f"mkdir /run/kept && cp {binary.path} /run/kept/edgecron"
    keep += "".join(f" && mount -o ro -t tmpfs tmpfs {place}" for place in ("/tmp", "/dev/shm"))

    said, error = run_with_places(binary, mounts, f"{keep} && /run/kept/edgecron x; echo code $?")

    assert said == "code 125\n"
    reasons = [line.strip() for line in error.splitlines() if line.startswith("  ")]
    assert reasons == [
        "/var/cache/edgecron: it is mounted noexec: no program can be run there",
        "/var/lib/edgecron: no space left: it takes 1 MB",
        "/var/tmp/edgecron-0: Read-only file system",
        "/tmp/edgecron-0: Read-only file system",
        "/dev/shm/edgecron-0: Read-only file system",
    ]


def test_the_places_are_those_of_the_user_in_a_fixed_order(binary: Binary) -> None:
    environment = binary.environment(XDG_CACHE_HOME="/some/cache", HOME="/some/home")
    del environment["EDGECRON_UNPACK_DIR"]

    said = subprocess.run(
        [binary.path, ":places"], env=environment, capture_output=True, text=True, check=True
    )

    uid = os.geteuid()
    last = [f"/var/tmp/edgecron-{uid}", f"/tmp/edgecron-{uid}", f"/dev/shm/edgecron-{uid}"]
    assert said.stdout.splitlines()[-3:] == last
    if uid == 0:
        assert said.stdout.splitlines()[:2] == ["/var/cache/edgecron", "/var/lib/edgecron"]
    else:
        first = ["/some/cache/edgecron", "/some/home/.cache/edgecron"]
        assert said.stdout.splitlines()[:2] == first


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        ("cut short", "its file is not whole: fetch it again, and compare its checksum"),
        ("changed", "the file is damaged: fetch it again, and compare its checksum"),
    ],
)
def test_a_file_that_was_harmed_on_its_way_says_so_and_unpacks_nothing(
    binary: Binary, launcher: bytes, harm: str, words: str
) -> None:
    content = bytearray(binary.path.read_bytes())
    if harm == "cut short":
        del content[-1000:]
    else:
        at = len(launcher) + -len(launcher) % 4096 + 40
        content[at] ^= 0xFF
    binary.path.write_bytes(content)

    said = binary.run("hello")

    assert said.returncode == 125
    assert words in said.stderr
    assert harm == "cut short" or binary.versions() == []


def test_a_program_that_does_not_start_here_says_why_and_is_not_kept(make: Make) -> None:
    binary = make()

    said = binary.run("hello", TRIED="1")

    assert said.returncode == 125
    assert said.stderr.startswith("edgecron: it was tried, and ended at once\n")
    assert "glibc 2.31 or newer" in said.stderr
    assert binary.versions() == []


def test_the_same_files_make_the_same_binary(make: Make) -> None:
    assert make().path.read_bytes() == make(name="second").path.read_bytes()


def test_what_was_not_unpacked_here_is_never_removed(binary: Binary) -> None:
    thesis = binary.program / "my-thesis"
    thesis.mkdir(parents=True)
    (thesis / "chapter").write_text("one")

    assert binary.run("--version").returncode == 0

    assert (thesis / "chapter").read_text() == "one"


def test_a_place_that_is_a_link_is_not_among_those_found(binary: Binary, tmp_path: Path) -> None:
    assert binary.run("--version").returncode == 0
    assert binary.run(":found").stdout == f"{binary.places}\n"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "program").symlink_to(binary.program)

    said = binary.run(":found", EDGECRON_UNPACK_DIR=str(elsewhere))

    assert (said.returncode, said.stdout) == (0, "")
