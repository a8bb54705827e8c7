"""The bill of materials of a release, as CycloneDX 1.6 JSON: what is in it, by version and licence.

    python3 packaging/sbom.py packaging/locks/binary.txt --name edgecron --version 1.2.3 > sbom.json

Run by a Python that has what the lock file names, for licences stand in the metadata of what is
installed. The same lock file gives the same text; SOURCE_DATE_EPOCH is its time. `--native FILE`
adds what else is in a binary, as `packaging/binary/build` has it in licences.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.message import Message
from importlib import import_module, metadata
from pathlib import Path
from typing import cast

# `name==version ; marker \`, then lines of hashes.
_PINNED = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>[^\s;]+)", re.MULTILINE)
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "edgecron.sbom")


def bill_of(
    installed: Sequence[metadata.Distribution],
    native: Sequence[Mapping[str, str]],
    *,
    name: str,
    version: str,
) -> dict[str, object]:
    """The whole document; its serial number and time follow from what is in it.

    Of `native` each has its name, its version, which may be '', and its purl.
    """
    components = [*map(_component, installed), *_embedded(installed), _python()]
    components += map(_native, native)
    built_at = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
    body: dict[str, object] = {
        "metadata": {
            "timestamp": built_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": "edgecron",
                "name": name,
                "version": version,
                "purl": f"pkg:pypi/edgecron@{version}",
                "licenses": [{"license": {"id": "MIT"}}],
            },
        },
        "components": components,
        "dependencies": [
            {"ref": "edgecron", "dependsOn": [part["bom-ref"] for part in components]}
        ],
    }
    serial = uuid.uuid5(_NAMESPACE, json.dumps(body, sort_keys=True))
    head = {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{serial}"}
    return head | {"version": 1} | body


def _component(part: metadata.Distribution) -> dict[str, object]:
    purl = f"pkg:pypi/{_canonical(part.name)}@{part.version}"
    component: dict[str, object] = {
        "type": "library",
        "bom-ref": purl,
        "name": _canonical(part.name),
        "version": part.version,
        "purl": purl,
    }
    licence = _licence(part.metadata)
    return component | ({"licenses": [licence]} if licence else {})


def _embedded(installed: Sequence[metadata.Distribution]) -> Iterator[dict[str, object]]:
    """SQLite, which no metadata tell of: it is compiled into apsw."""
    if any(part.name == "apsw" for part in installed):
        version = str(import_module("apsw").sqlite_lib_version())
        yield _generic("sqlite", version, kind="library", licence="blessing")


def _native(part: Mapping[str, str]) -> dict[str, object]:
    said = {"type": "library", "bom-ref": part["purl"], "name": part["name"], "purl": part["purl"]}
    version = {"version": part["version"]} if part["version"] else {}
    return {**said, **version}


def _python() -> dict[str, object]:
    version = ".".join(map(str, sys.version_info[:3]))
    return _generic("python", version, kind="platform", licence="PSF-2.0")


def _generic(name: str, version: str, *, kind: str, licence: str) -> dict[str, object]:
    purl = f"pkg:generic/{name}@{version}"
    return {
        "type": kind,
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "licenses": [{"license": {"id": licence}}],
    }


def _licence(said: metadata.PackageMetadata) -> dict[str, object] | None:
    """What a library says of its licence: an expression, else words, else a classifier."""
    headers = cast(Message, said)  # what it is: its type promises less
    expression = headers.get("License-Expression")
    if expression:
        return {"expression": expression}
    words = (headers.get("License") or "").strip()
    if words and "\n" not in words:
        return {"license": {"name": words}}
    classes = [
        line.split(" :: ")[-1]
        for line in headers.get_all("Classifier", [])
        if line.startswith("License :: ")
    ]
    return {"license": {"name": classes[0]}} if classes else None


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def installed_of(lock: str) -> list[metadata.Distribution]:
    """What a lock file names and this Python has; its markers leave the rest to other systems.

    Raises SystemExit where a version differs: the bill would be of something else.
    """
    found = []
    for pin in _PINNED.finditer(lock):
        try:
            part = metadata.distribution(pin["name"])
        except metadata.PackageNotFoundError:
            continue
        if part.version != pin["version"]:
            sys.exit(f"{pin['name']} is {part.version} here, {pin['version']} in the lock file")
        found.append(part)
    if not found:
        sys.exit("nothing that the lock file names is installed here")
    return found


def main(arguments: Sequence[str]) -> None:
    """Print the bill."""
    parser = argparse.ArgumentParser(description="Print the bill of materials of a release.")
    parser.add_argument("locks", nargs="+", type=Path, metavar="LOCK")
    parser.add_argument("--name", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--native", type=Path, metavar="FILE")
    chosen = parser.parse_args(arguments)
    lock = "".join(path.read_text(encoding="utf-8") for path in chosen.locks)
    native = json.loads(chosen.native.read_text(encoding="utf-8")) if chosen.native else []
    bill = bill_of(installed_of(lock), native, name=chosen.name, version=chosen.version)
    print(json.dumps(bill, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
