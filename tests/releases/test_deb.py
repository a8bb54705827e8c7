"""The .deb: what is in it, and what it does to a system from installation to purge.

It is built of a real edgecron of this tree that its Python runs: to dpkg the program is files like
others. The single binary itself is put in, installed in a bare Debian and upgraded while a job
runs by packaging/trials/bare-debian.
"""

from __future__ import annotations

import gzip
import os
import shlex
import shutil
import struct
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import edgecron
from tests.binary.bundles import compile_launcher, package_files, packing
from tests.support.releasing import PACKAGING, SOME_DAY
from tests.support.sharing import made_once
from tests.support.tools import need_compiler, need_packages, private_mounts

DEBIAN_VERSION = f"{edgecron.__version__}-1~glibc2.31"
DOC = "usr/share/doc/edgecron"
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/edgecron",
    "zsh": "usr/share/zsh/vendor-completions/_edgecron",
    "fish": "usr/share/fish/vendor_completions.d/edgecron.fish",
}
FILES = {
    "usr/bin/edgecron",
    "usr/lib/systemd/system/edgecron.service",
    "usr/lib/systemd/user/edgecron.service",
    "usr/share/man/man1/edgecron.1.gz",
    *COMPLETIONS.values(),
    *(f"{DOC}/{name}" for name in ("changelog.gz", "changelog.Debian.gz", "copyright")),
    *(f"{DOC}/bundled/{name}" for name in ("apsw", "openssl")),
    "usr/share/lintian/overrides/edgecron",
}


def out_of(*command: str | Path, **environment: str) -> str:
    """What a command prints; raises with what it said on stderr where it fails."""
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    need_compiler()
    folder = tmp_path_factory.mktemp("launcher")
    return made_once("deb-launcher", lambda: compile_launcher(folder))


def write_program(folder: Path, launcher: bytes, *, other: str = "") -> Path:
    """A single binary that is the real program, in all but its Python; `other` is in a file of it.

    It has a program of its own beside it, which a process can run from.
    """
    need_packages("zstandard")
    pack = packing()
    files = [
        *package_files(pack)[:-1],
        pack.File("_internal/other", 0o600, other.encode()),
        pack.File("_internal/sleep", 0o700, Path("/bin/sleep").read_bytes()),
    ]
    listed = "".join(f"{file.path}\n" for file in files)
    files.append(pack.File(pack.LIST, 0o600, listed.encode()))
    path = folder / "edgecron"
    path.write_bytes(pack.packed(files, launcher=launcher, version=edgecron.__version__, level=1))
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, launcher: bytes) -> Path:
    folder = tmp_path_factory.mktemp("program")
    return _once("deb-program", folder, lambda: write_program(folder, launcher))


def build(program: Path, into: Path, *, umask: int = 0o022, glibc: str = "2.31") -> Path:
    licences = into / "licences"
    (licences / "common-licenses").mkdir(parents=True)
    (licences / "common-licenses" / "GPL-3").write_text("The same wherever Debian is.\n")
    (licences / "apsw").write_text("As its authors have it.\n")
    (licences / "openssl").write_text("As Debian has it.\n")
    done = subprocess.run(
        [
            *(PACKAGING / "deb" / "build", "--binary", program, "--glibc", glibc),
            *("--licences", licences, into / "dist"),
        ],
        # Half of the time would go into a smaller file. An older dpkg takes that time.
        env=os.environ | {"SOURCE_DATE_EPOCH": SOME_DAY, "DPKG_DEB_COMPRESSOR_LEVEL": "1"},
        umask=umask,
        cwd=into,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.fixture(scope="module")
def package(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deb")
    return _once("deb-package", folder, lambda: build(program, folder))


@pytest.fixture(scope="module")
def following(launcher: bytes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package of another program of the same version, for a newer system."""
    folder = tmp_path_factory.mktemp("following")
    return _once(
        "deb-following",
        folder,
        lambda: build(write_program(folder, launcher, other="new"), folder, glibc="2.36"),
    )


def _once(name: str, folder: Path, make: Callable[[], Path]) -> Path:
    """Make a file in a folder, or copy there what another worker has made: that takes seconds."""

    def read() -> tuple[str, int, bytes]:
        path = make()
        return path.name, path.stat().st_mode, path.read_bytes()

    file_name, mode, content = made_once(name, read)
    path = folder / file_name
    if not path.exists():
        path.write_bytes(content)
        path.chmod(mode)
    return path


@pytest.fixture(scope="module")
def tree(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files and scripts of the package, unpacked."""
    folder = tmp_path_factory.mktemp("tree")
    out_of("dpkg-deb", "--raw-extract", package, folder)
    return folder


def test_a_package_holds_the_program_and_what_belongs_to_it(tree: Path) -> None:
    [installed] = (tree / "usr/lib/edgecron").iterdir()
    held = {
        str(path.relative_to(tree))
        for path in tree.rglob("*")
        if path.is_file() and not path.is_relative_to(installed)
    }

    scripts = {"control", "md5sums", "preinst", "postinst", "prerm", "postrm"}
    assert held == FILES | {f"DEBIAN/{name}" for name in scripts}
    assert (installed / "_internal/edgecron/cli/self_.py").is_file()
    assert not [path for path in installed.iterdir() if path.name.startswith(".")]


def test_the_program_of_a_package_starts_the_files_of_the_package(
    tree: Path, launcher: bytes
) -> None:
    [installed] = (tree / "usr/lib/edgecron").iterdir()
    content = (tree / "usr/bin/edgecron").read_bytes()

    magic, at, packed, listed, _, name = struct.unpack("<16sQQQQ64s", content[-112:])

    assert magic == b"edgecron bundle\0"
    assert name.rstrip(b"\0").decode() == installed.name
    assert (packed, at + packed + listed) == (0, len(content) - 112)
    assert content[:at].startswith(launcher)
    assert content[at : at + listed].decode() == f"/usr/lib/edgecron/{installed.name}"


def test_what_a_package_holds_belongs_to_root_and_is_written_by_nobody_else(package: Path) -> None:
    lines = out_of("dpkg-deb", "--contents", package).splitlines()

    assert lines
    assert {line.split()[1] for line in lines} == {"root/root"}
    assert {line.split()[0] for line in lines} == {"drwxr-xr-x", "-rw-r--r--", "-rwxr-xr-x"}
    programs = [line.split()[-1] for line in lines if line.startswith("-rwx")]
    assert programs[0] == "./usr/bin/edgecron"
    assert [path.split("/", 5)[-1] for path in programs[1:]] == ["_internal/sleep", "edgecron"]


def test_a_package_says_what_it_is_and_needs(package: Path) -> None:
    fields = ("Package", "Version", "Architecture", "Depends", "Section", "Priority")
    said = out_of("dpkg-deb", "--field", package, *fields).splitlines()

    assert said[:2] == ["Package: edgecron", f"Version: {DEBIAN_VERSION}"]
    assert "Depends: libc6 (>= 2.31)" in said


def test_the_copyright_file_names_all_that_is_in_the_program(tree: Path) -> None:
    text = (tree / DOC / "copyright").read_text(encoding="utf-8")

    assert text.startswith("edgecron is\n")
    assert text.endswith("They are:\n\n  apsw\n  openssl\n")
    assert (tree / DOC / "bundled" / "openssl").read_text() == "As Debian has it.\n"


def test_a_package_without_the_licences_of_its_program_is_not_built(
    program: Path, tmp_path: Path
) -> None:
    done = subprocess.run(
        [*(PACKAGING / "deb" / "build", "--binary", program, "--glibc", "2.31"), tmp_path / "dist"],
        env=os.environ | {"SOURCE_DATE_EPOCH": SOME_DAY},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "unpacks no licences: name a folder with --licences" in done.stderr
    assert not (tmp_path / "dist").exists()


def test_of_two_packages_of_a_version_that_for_newer_systems_is_the_newer(
    package: Path, following: Path
) -> None:
    assert following.name != package.name
    versions = [out_of("dpkg-deb", "--field", path, "Version") for path in (package, following)]
    out_of("dpkg", "--compare-versions", versions[0].strip(), "lt", versions[1].strip())


def test_the_sums_of_a_package_are_those_of_its_files(tree: Path) -> None:
    done = subprocess.run(
        ["md5sum", "--check", "--strict", "DEBIAN/md5sums"], cwd=tree, capture_output=True
    )

    assert done.returncode == 0
    files = [path for path in (tree / "usr").rglob("*") if path.is_file()]
    assert len((tree / "DEBIAN" / "md5sums").read_text().splitlines()) == len(files) > len(FILES)


def test_manual_and_completions_are_what_the_program_says(tree: Path, program: Path) -> None:
    page = gzip.decompress((tree / "usr/share/man/man1/edgecron.1.gz").read_bytes()).decode()

    assert page == out_of(program, "help", "--man")
    for shell, path in COMPLETIONS.items():
        assert (tree / path).read_text() == out_of(program, "completion", shell)


@pytest.mark.parametrize("scope", ["system", "user"])
def test_the_units_run_the_installed_program_with_no_settings_of_the_builder(
    tree: Path, scope: str
) -> None:
    unit = (tree / f"usr/lib/systemd/{scope}/edgecron.service").read_text().splitlines()

    assert "ExecStart=/usr/bin/edgecron daemon" in unit
    assert {"Type=notify", "KillMode=process", "Documentation=man:edgecron(1)"} <= set(unit)
    assert not [line for line in unit if "edgecron-sum" in line or "Written by" in line]


def test_a_package_is_the_same_to_the_byte_wherever_it_is_built(
    package: Path, program: Path, tmp_path: Path
) -> None:
    again = build(program, tmp_path / "a longer name", umask=0o077)

    assert again.name == package.name
    assert again.read_bytes() == package.read_bytes()


@pytest.mark.needs("lintian")
def test_lintian_finds_nothing_wrong(package: Path) -> None:
    judged = out_of(
        *("lintian", "--allow-root", "--no-cfg", "--fail-on", "error,warning"),
        *("--suppress-tags", "unusual-interpreter", package),  # of the Python of these tests
    )

    assert judged == ""


class Machine:
    """A root folder that dpkg installs into; services are enabled there, and none is started."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "var/lib/dpkg/updates").mkdir(parents=True)
        (root / "var/lib/dpkg/info").mkdir()
        (root / "var/lib/dpkg/status").touch()
        (root / "usr/bin").mkdir(parents=True)
        shutil.copy("/usr/bin/deb-systemd-helper", root / "usr/bin")

    def dpkg(self, *arguments: str | Path) -> None:
        forced = ("not-root", "script-chrootless", "depends", "bad-path")
        options = [f"--force-{name}" for name in forced]
        out_of("dpkg", f"--root={self.root}", f"--log={self.root}/dpkg.log", *options, *arguments)

    def ours(self) -> set[str]:
        """All paths that have the program's name in them, beside dpkg's own."""
        return {
            str(path.relative_to(self.root))
            for path in self.root.rglob("*edgecron*")
            if "var/lib/dpkg" not in str(path)
        }


ENABLED = "etc/systemd/system/multi-user.target.wants/edgecron.service"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "root")


def test_an_installed_package_is_enabled_and_may_be_configured_twice(
    machine: Machine, package: Path
) -> None:
    machine.dpkg("--install", package)
    before = machine.ours()
    machine.dpkg("--install", package)

    assert (machine.root / ENABLED).is_symlink()
    assert machine.ours() == before


def test_an_upgrade_keeps_a_service_disabled_that_somebody_has_disabled(
    machine: Machine, package: Path
) -> None:
    machine.dpkg("--install", package)
    (machine.root / ENABLED).unlink()

    machine.dpkg("--install", package)

    assert not (machine.root / ENABLED).is_symlink()


def test_removing_keeps_the_history_and_purging_leaves_nothing_of_root_s(
    machine: Machine, package: Path
) -> None:
    database = machine.root / "var/lib/edgecron/edgecron.db"
    of_a_user = machine.root / "home/ann/.local/share/edgecron/edgecron.db"
    unpacked = machine.root / "var/cache/edgecron/program"
    machine.dpkg("--install", package)
    for path in (database, of_a_user, unpacked):
        path.parent.mkdir(parents=True)
        path.touch()

    machine.dpkg("--remove", "edgecron")

    assert database.exists()
    assert not (machine.root / "usr/bin/edgecron").exists()

    machine.dpkg("--purge", "edgecron")
    machine.dpkg("--purge", "edgecron")

    assert of_a_user.exists()
    assert machine.ours() == {
        *("home/ann/.local/share/edgecron", "home/ann/.local/share/edgecron/edgecron.db")
    }


@pytest.mark.parametrize("then", ["upgrade", "remove"])
def test_a_version_that_a_process_runs_from_stays_until_that_ends(
    machine: Machine, package: Path, following: Path, then: str
) -> None:
    home = machine.root / "usr/lib/edgecron"
    machine.dpkg("--install", package)
    [old] = home.iterdir()
    files = {path.relative_to(old) for path in old.rglob("*")}
    running = subprocess.Popen([old / "_internal/sleep", "600"])

    try:
        machine.dpkg(*(("--install", following) if then == "upgrade" else ("--remove", "edgecron")))
        assert {path.relative_to(old) for path in old.rglob("*")} == files
        assert len(list(home.iterdir())) == (2 if then == "upgrade" else 1)
    finally:
        running.kill()
        running.wait()

    machine.dpkg("--install", following)
    [new] = home.iterdir()
    assert new != old
    machine.dpkg("--remove", "edgecron")
    assert not home.exists()


@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        *(("preinst", way) for way in ("install", "upgrade", "abort-upgrade")),
        *(("postinst", way) for way in ("abort-upgrade", "abort-remove", "abort-deconfigure")),
        *(("prerm", way) for way in ("upgrade", "failed-upgrade", "deconfigure", "remove")),
        *(("postrm", way) for way in ("upgrade", "failed-upgrade", "abort-install")),
        *(("postrm", way) for way in ("abort-upgrade", "disappear", "remove", "purge")),
    ],
)
def test_a_script_takes_each_way_in_which_dpkg_calls_it(
    machine: Machine, tree: Path, script: str, arguments: str
) -> None:
    out_of(tree / "DEBIAN" / script, arguments, "0.0.1-1", DPKG_ROOT=str(machine.root))


@pytest.fixture
def configure(tree: Path, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The postinst on a machine with a systemd, as far as it can see, whose users run services.

    What it calls writes down how; `invoke` is what deb-systemd-invoke does, `user` what all users
    are called, None where it is as the machine has it.
    """

    def configured(
        *arguments: str,
        invoke: str = "true",
        services: Sequence[str] = (),
        user: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        programs = tmp_path / "programs"
        programs.mkdir()
        calls = f'echo "${{0##*/}} $*" >>{tmp_path}/calls'
        for name, text in {
            "systemctl": calls,
            "deb-systemd-helper": calls,
            "deb-systemd-invoke": f"{calls}; {invoke}",
            # Nobody is to wait for it here.
            "timeout": f'{calls}; shift; exec /usr/bin/timeout 0.5 "$@"',
            "id": (
                'exec /usr/bin/id "$@"' if user is None else f"printf '%s\\n' {shlex.quote(user)}"
            ),
        }.items():
            (programs / name).write_text(f"#!/bin/sh\n{text}\n")
            (programs / name).chmod(0o755)
        made = [f"/sys/fs/cgroup/user.slice/{service}" for service in services]
        script = " && ".join(
            [
                *("mount -t tmpfs tmpfs /run", "mount -t tmpfs tmpfs /sys/fs/cgroup"),
                f"mkdir -p /run/systemd/system {shlex.join(made)}",
                f"PATH={programs}:$PATH exec {tree}/DEBIAN/postinst {shlex.join(arguments)}",
            ]
        )
        return subprocess.run(
            [*private_mounts(), "sh", "-c", script],
            capture_output=True,
            text=True,
            check=False,
        )

    return configured


@pytest.mark.parametrize(("before", "action"), [("", "start"), ("0.0.1-1", "restart")])
def test_the_daemon_is_started_and_after_an_upgrade_restarted(
    configure: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
    before: str,
    action: str,
) -> None:
    done = configure("configure", before)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[-1] == f"deb-systemd-invoke {action} edgecron.service"
    assert "systemctl --system daemon-reload" in calls


def test_a_daemon_that_takes_long_to_start_does_not_hold_dpkg(
    configure: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "never")

    done = configure("configure", "0.0.1-1", invoke=f"read go <{tmp_path}/never")

    assert done.returncode == 0
    assert done.stderr == (
        "edgecron: the daemon is still starting; see: systemctl status edgecron\n"
    )
    assert "timeout 30 deb-systemd-invoke restart" in (tmp_path / "calls").read_text()


def test_a_daemon_that_can_not_start_is_no_failure_of_dpkg(
    configure: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    assert configure("configure", "", invoke="exit 1").returncode == 0


def test_an_upgrade_names_users_whose_own_services_it_does_not_restart(
    configure: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = configure(
        *("configure", "0.0.1-1"),
        services=[
            "user-0.slice/user@0.service/app.slice/edgecron-plant.service",
            "user-4242.slice/user@4242.service/app.slice/edgecron.service",
            "user-4242.slice/user@4242.service/app.slice/other.service",
        ],
    )

    # No word of how long they do so: they end by themselves where a newer edgecron has brought
    # their database up to date.
    assert done.stdout == (
        "edgecron: root still runs the version from before the upgrade; "
        "as root: systemctl --user restart edgecron-plant.service\n"
        "edgecron: 4242 still runs the version from before the upgrade; "
        "as 4242: systemctl --user restart edgecron.service\n"
    )


@pytest.mark.parametrize(
    "name",
    [
        r"edgecron\033]0;owned\007.service",
        "edgecron\x1b]0;owned\x07.service",
        "edgecron\nedgecron: run this.service",
        "edgecron-é.service",
        "edgecron \u202e.service",
    ],
)
def test_what_a_user_calls_a_service_does_nothing_to_the_terminal_of_root(
    configure: Callable[..., subprocess.CompletedProcess[str]], name: str
) -> None:
    beside = "edgecron-my_own@2.1.service"
    folder = "user-0.slice/user@0.service/app.slice"

    done = configure("configure", "0.0.1-1", services=[f"{folder}/{name}", f"{folder}/{beside}"])

    assert done.returncode == 0
    assert [line.split()[-1] for line in done.stdout.splitlines()] == [beside]
    assert done.stderr == ""


@pytest.mark.parametrize("user", [r"ann\033]0;owned\007", "ann\x1b[2J", "", "ann; true"])
def test_a_user_whose_name_is_not_plain_is_told_by_number(
    configure: Callable[..., subprocess.CompletedProcess[str]], user: str
) -> None:
    service = "user-4242.slice/user@4242.service/app.slice/edgecron.service"

    done = configure("configure", "0.0.1-1", services=[service], user=user)

    assert done.stdout.startswith("edgecron: 4242 still runs")
    assert done.stdout.endswith("as 4242: systemctl --user restart edgecron.service\n")


def test_a_first_installation_names_no_user(
    configure: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    service = "user-0.slice/user@0.service/app.slice/edgecron.service"

    assert configure("configure", "", services=[service]).stdout == ""


def test_a_script_refuses_what_dpkg_never_asks(tree: Path) -> None:
    for script in ("postinst", "prerm", "postrm"):
        done = subprocess.run([tree / "DEBIAN" / script, "dance"], capture_output=True, text=True)

        assert done.returncode == 1
        assert done.stderr == f"{script} called with unknown argument 'dance'\n"
