"""Gather the licences of all that a single binary holds, as their authors and Debian have them.

    licences.py --collected FILE --linked FILE --output FOLDER --index FILE [--texts FOLDER]

COLLECTED is a JSON array of the files that the one-dir build is made of, as edgecron.spec writes
it; LINKED has, a line each, the files that were linked into the launcher, as `compile` writes it.
What comes from the registry brings its licence; that of a library of the system is what Debian's
package has in /usr/share/doc, and a licence that such a text only refers to comes along. TEXTS is a
folder with the licences of what no package brings, such as an OpenSSL within a Python that somebody
has compiled: a file each, NAME or NAME_VERSION.

Run by the Python that the binary holds. OUTPUT gets a file for each library; INDEX says in JSON,
for the bill of materials, what is neither of the registry nor Python. Ends with 1 where a licence
is missing, and names what it is of. The same files give the same texts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

_LICENCE_FILE = re.compile(r"(licen[cs]e|copying|notice|authors)[^/]*$", re.IGNORECASE)
_COMMON = Path("/usr/share/common-licenses")
_REFERRED = re.compile(rf"{_COMMON}/([\w+-]+(?:\.\d+)*)")
# What a Python may have within itself where no such library lies beside it.
_WITHIN = {
    "_bz2": ("libbz2", "bzip2"),
    "_ctypes": ("libffi", "libffi"),
    "_hashlib": ("libcrypto", "openssl"),
    "_lzma": ("liblzma", "xz-utils"),
    "_ssl": ("libssl", "openssl"),
    "zlib": ("libz", "zlib"),
}


class Licence(NamedTuple):
    """The text of one library. `purl` is '' where a bill of materials knows of it without us."""

    name: str
    version: str
    text: str
    purl: str


class Sources(NamedTuple):
    """The files that a binary is made of, by what they are of."""

    libraries: set[str]  # of the registry, by name
    python: set[Path]
    system: set[Path]


def sorted_out(files: Sequence[Path]) -> Sources:
    """Whose each file is; what is under no folder of this Python's is the system's."""
    owners: dict[Path, str] = {}
    names = {path.name for path in files}
    for part in metadata.distributions():
        for file in part.files or ():
            # A library that a wheel has brought from the system it was built on is not its own.
            if file.name in names and not file.parts[0].endswith(".libs"):
                owners[Path(str(file.locate()))] = part.name
    installed = Path(sysconfig.get_path("platlib")), Path(sysconfig.get_path("purelib"))
    stdlib = Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("platstdlib"))
    found = Sources(set(), set(), set())
    for path in files:
        if path in owners:
            found.libraries.add(owners[path])
        elif not _is_in(path, installed) and (
            _is_in(path, stdlib) or path.name.startswith("libpython")
        ):
            found.python.add(path)
        else:
            found.system.add(path)
    return found


def _is_in(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def of_library(name: str) -> Licence | None:
    """That of an installed library of the registry; None where it brings none."""
    part = metadata.distribution(name)
    texts = sorted(
        (path.name, Path(str(path.locate())).read_text(encoding="utf-8", errors="replace"))
        for path in part.files or ()
        if path.parts[0].endswith(".dist-info") and _LICENCE_FILE.search(path.name)
    )
    joined = "\n\n".join(text for _, text in texts)
    canonical = re.sub(r"[-_.]+", "-", part.name).lower()
    return Licence(canonical, part.version, joined, "") if joined else None


def packages_of(files: Iterable[Path]) -> dict[Path, str]:
    """Debian's packages of files, as far as there are any."""
    spelt: dict[str, Path] = {}
    for path in files:
        # One package has it where a link leads, another in /lib, which is /usr/lib.
        for name in (str(path), os.path.realpath(path)):
            spelt |= {name: path, name.removeprefix("/usr"): path, f"/usr{name}": path}
    if not spelt or shutil.which("dpkg-query") is None:
        return {}
    # It ends with 1 where it knows one of them not, as it always does of some.
    said = subprocess.run(
        ["dpkg-query", "--search", *sorted(spelt)], capture_output=True, text=True, check=False
    )
    pairs = (line.split(": ", 1) for line in said.stdout.splitlines() if ": " in line)
    return {
        spelt[path]: owner.split(",")[0]
        for owner, path in pairs
        if path in spelt and not owner.startswith("diversion ")
    }


def of_packages(packages: Iterable[str]) -> Iterator[Licence]:
    """Those of Debian's packages, one for all that are of the same source."""
    texts: dict[tuple[str, str], set[str]] = {}
    for package in sorted(set(packages)):
        shown = subprocess.run(
            ["dpkg-query", "--show", "--showformat=${source:Package} ${source:Version}", package],
            capture_output=True,
            text=True,
            check=True,
        )
        name, version = shown.stdout.split()
        path = Path("/usr/share/doc", package.partition(":")[0], "copyright")
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        texts.setdefault((name, version), set()).add(text)
    kind = f"pkg:deb/{_distribution()}"
    for (name, version), found in texts.items():
        text = "\n\n".join(sorted(found - {""}))
        yield Licence(name, version, text, f"{kind}/{name}@{quote(version)}?arch=source")


def _distribution() -> str:
    """As os-release has it: debian, ubuntu."""
    lines = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    told = dict(line.split("=", 1) for line in lines if "=" in line)
    return told.get("ID", "debian").strip('"')


def of_folder(folder: Path | None) -> Iterator[Licence]:
    """Those that somebody has laid ready."""
    for path in sorted(folder.iterdir()) if folder else ():
        name, _, version = path.name.partition("_")
        at = f"@{quote(version)}" if version else ""
        yield Licence(name, version, path.read_text(encoding="utf-8"), f"pkg:generic/{name}{at}")


def gather(files: Sequence[Path], *, texts: Path | None) -> tuple[list[Licence], list[str]]:
    """The licences of files, and a line of each for which there is none."""
    sources = sorted_out(files)
    packages = packages_of(sources.system | sources.python)
    laid_ready = {found.name: found for found in of_folder(texts)}
    packaged = list(of_packages(packages.values()))
    missing = [f"{found.name}, a package" for found in packaged if not found.text]
    found = [*laid_ready.values(), *(one for one in packaged if one.text)]
    for name in sorted(sources.libraries):
        licence = of_library(name)
        found += [licence] if licence else []
        missing += [] if licence else [f"{name}, which brings none"]
    for path in sorted(sources.system - set(packages)):
        stem = path.name.partition(".so")[0]
        missing += [] if stem in laid_ready else [f"{stem}: no package has {path}"]
    if sources.python and not sources.python & set(packages):
        own = Path(sysconfig.get_path("stdlib")) / "LICENSE.txt"
        if "python" not in laid_ready and own.is_file():
            found += [Licence("python", "", own.read_text(encoding="utf-8"), "")]
        elif "python" not in laid_ready:
            missing += [f"python: {own} is not there"]
        missing += missing_within(sources, laid_ready)
    return sorted(found), missing


def missing_within(sources: Sources, laid_ready: Iterable[str]) -> Iterator[str]:
    """What a Python of nobody's package has linked into itself, and nobody has told of."""
    modules = {path.name.partition(".")[0] for path in sources.python} | {*sys.builtin_module_names}
    beside = {path.name.partition(".so")[0] for path in sources.system}
    for module, (library, name) in _WITHIN.items():
        if module in modules and library not in beside and name not in laid_ready:
            yield f"{name}, which is within {module} of this Python"


def write(found: Sequence[Licence], folder: Path) -> None:
    """A file for each, and those that the texts refer to in a folder of their own.

    Raises SystemExit where this system does not have one of these.
    """
    common = folder / _COMMON.name
    common.mkdir(parents=True)
    for name in sorted({licence.name for licence in found}):
        text = "\n\n".join(licence.text for licence in found if licence.name == name)
        (folder / name).write_text(text, encoding="utf-8")
    referred = {name for licence in found for name in _REFERRED.findall(licence.text)}
    for name in sorted(referred):
        if not (_COMMON / name).is_file():
            sys.exit(f"error: {_COMMON / name} is not here, and a licence refers to it")
        shutil.copyfile(_COMMON / name, common / name)


def main() -> None:
    """Gather them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    for name in ("--collected", "--linked", "--output", "--index"):
        parser.add_argument(name, required=True, type=Path)
    parser.add_argument("--texts", type=Path)
    given = parser.parse_args()
    collected = json.loads(given.collected.read_text(encoding="utf-8"))
    linked = given.linked.read_text(encoding="utf-8").split("\n")
    files = sorted({Path(os.path.normpath(name)) for name in (*collected, *linked) if name})
    found, missing = gather(files, texts=given.texts)
    if missing:
        lines = "\n".join(f"error: there is no licence of {line}" for line in missing)
        sys.exit(f"{lines}\nput each into a folder, as a file of that name, and name it: --texts")
    write(found, given.output)
    index = [{"name": each.name, "version": each.version, "purl": each.purl} for each in found]
    native = [row for row in index if row["purl"] and not row["name"].startswith("python")]
    given.index.write_text(json.dumps(native, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
