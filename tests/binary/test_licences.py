"""The licences of what a single binary holds: of all of it, or there is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

from tests.binary.bundles import PACKAGING, Binary, package_files
from tests.support.releasing import tool

# Of a package that each Debian has, found where a compiler's words lead and where its file lies.
LIBC = next(iter(Path("/lib").glob("*-linux-gnu/libc.so.6")), Path("/lib/libc.so.6"))


def library(name: str) -> Path:
    """A file of a library of the registry that is installed here."""
    part = metadata.distribution(name)
    return Path(str(next(path.locate() for path in part.files or () if path.suffix == ".py")))


class Gathering:
    """What `licences.py` makes of some files, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.texts = folder / "texts"
        self.texts.mkdir(parents=True)
        # A Python that was compiled on this machine is told of as far as it has to be.
        for name in ("bzip2", "libffi", "openssl", "xz-utils", "zlib"):
            (self.texts / name).write_text(f"that of {name}")

    def run(self, *files: Path, linked: tuple[Path, ...] = ()) -> subprocess.CompletedProcess[str]:
        collected = self.folder / "collected.json"
        collected.write_text(json.dumps([str(path) for path in files]))
        (self.folder / "linked").write_text("".join(f"{path}\n" for path in linked))
        return subprocess.run(
            [
                *(sys.executable, PACKAGING / "licences.py", "--collected", collected),
                *("--linked", self.folder / "linked", "--output", self.folder / "out"),
                *("--index", self.folder / "index.json", "--texts", self.texts),
            ],
            capture_output=True,
            text=True,
            check=False,
        )

    def text(self, name: str) -> str:
        return (self.folder / "out" / name).read_text(encoding="utf-8")

    def index(self) -> dict[str, str]:
        """The version of each library by its name."""
        rows = json.loads((self.folder / "index.json").read_text(encoding="utf-8"))
        return {row["name"]: row["version"] for row in rows}


@pytest.fixture
def gathering(tmp_path: Path) -> Gathering:
    return Gathering(tmp_path / "gathering")


def test_a_library_of_the_system_brings_what_its_package_says(gathering: Gathering) -> None:
    done = gathering.run(LIBC)

    assert done.returncode == 0, done.stderr
    copyright_file = Path("/usr/share/doc/libc6/copyright")
    assert gathering.text("glibc") == copyright_file.read_text(encoding="utf-8")
    shown = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${source:Version}", "libc6"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert gathering.index()["glibc"] == shown.stdout


def test_a_licence_that_a_text_refers_to_comes_along(gathering: Gathering) -> None:
    gathering.run(LIBC)

    name = "common-licenses/LGPL-2.1"
    assert f"/usr/share/{name}" in gathering.text("glibc")
    assert gathering.text(name) == Path("/usr/share", name).read_text(encoding="utf-8")


def test_what_is_linked_into_the_launcher_counts_as_well(gathering: Gathering) -> None:
    # As a compiler names it.
    named = LIBC.parent / "gcc" / "12" / ".." / ".." / LIBC.name

    done = gathering.run(linked=(named,))

    assert done.returncode == 0, done.stderr
    assert "glibc" in gathering.index()


def test_a_library_of_the_registry_brings_its_own(gathering: Gathering) -> None:
    done = gathering.run(library("platformdirs"))

    assert done.returncode == 0, done.stderr
    assert "Permission is hereby granted" in gathering.text("platformdirs")
    assert "platformdirs" not in gathering.index()
    assert not list((gathering.folder / "out").glob("python*"))


def test_the_python_that_it_holds_brings_its_own(gathering: Gathering) -> None:
    done = gathering.run(Path(os.__file__))

    assert done.returncode == 0, done.stderr
    [name] = {path.name for path in (gathering.folder / "out").glob("python*")}
    assert "PSF" in gathering.text(name) or "Python Software Foundation" in gathering.text(name)
    assert name not in gathering.index()


def test_without_a_licence_there_is_no_binary(gathering: Gathering, tmp_path: Path) -> None:
    strange = tmp_path / "libstrange.so.1"
    strange.touch()

    done = gathering.run(LIBC, strange)

    assert done.returncode == 1
    assert f"there is no licence of libstrange: no package has {strange}\n" in done.stderr
    assert "--texts" in done.stderr
    assert not (gathering.folder / "out").exists()


def test_what_a_wheel_brought_from_another_system_is_not_covered_by_its_own(
    gathering: Gathering,
) -> None:
    brought = Path(sysconfig.get_path("platlib")) / "some.libs" / "libgomp-1.so.1"

    done = gathering.run(brought)

    assert done.returncode == 1
    assert "there is no licence of libgomp-1" in done.stderr


def test_a_licence_that_was_laid_ready_is_taken(gathering: Gathering, tmp_path: Path) -> None:
    (gathering.texts / "libstrange_1.2").write_text("See /usr/share/common-licenses/Apache-2.0.\n")

    done = gathering.run(tmp_path / "libstrange.so.1")

    assert done.returncode == 0, done.stderr
    assert gathering.index()["libstrange"] == "1.2"
    assert gathering.text("libstrange").startswith("See ")
    assert "Apache License" in gathering.text("common-licenses/Apache-2.0")


def test_a_library_within_a_python_that_somebody_has_compiled_needs_one_too() -> None:
    licences = tool("binary/licences")
    modules = {Path("/opt/python3/lib-dynload/_ssl.so"), Path("/opt/python3/lib-dynload/_lzma.so")}
    sources = licences.Sources(set(), modules, {Path("/lib/liblzma.so.5")})

    told = "openssl, which is within _ssl of this Python"
    assert told in licences.missing_within(sources, ["zlib"])
    assert told not in licences.missing_within(sources, ["openssl"])
    assert not [line for line in licences.missing_within(sources, []) if "_lzma" in line]


def test_a_reference_to_a_licence_that_is_not_here_is_an_error(gathering: Gathering) -> None:
    (gathering.texts / "zlib").write_text("See /usr/share/common-licenses/None-1.0.\n")

    done = gathering.run(LIBC)

    assert done.returncode == 1
    assert "/usr/share/common-licenses/None-1.0 is not here" in done.stderr


def test_the_same_files_give_the_same_texts(gathering: Gathering, tmp_path: Path) -> None:
    again = Gathering(tmp_path / "again")
    files = [LIBC, library("platformdirs"), Path(os.__file__)]

    gathering.run(*files)
    again.run(*reversed(files))

    assert subprocess.run(
        ["diff", "-r", gathering.folder / "out", again.folder / "out"], check=False
    ).returncode == 0  # fmt: skip


def test_it_is_told_where_they_are(tmp_path: Path, pack: ModuleType, launcher: bytes) -> None:
    more = pack.File("_internal/licences/zlib", 0o600, b"as is\n")
    files = [*package_files(pack), more]
    content = pack.packed(files, launcher=launcher, version="1.0.0", level=1)
    program = Binary(tmp_path / "edgecron", content=content, places=tmp_path / "places")

    said = program.run("self")
    row = json.loads(program.run("self", "--json").stdout)[0]

    assert f"licences  {row['licences']}, of all its parts\n" in said.stdout
    assert Path(row["licences"], "zlib").read_text() == "as is\n"
