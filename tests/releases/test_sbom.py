"""The bill of materials names what is installed of a lock file, the same each time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.support.releasing import PACKAGING, SOME_DAY


def bill(lock: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, PACKAGING / "sbom.py", lock),
            *("--name", "edgecron", "--version", "1.2.3", *options),
        ],
        env=os.environ | {"SOURCE_DATE_EPOCH": SOME_DAY},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    """A lock file of three libraries; the last is for another system, and not here."""
    pins = [f"{name}=={metadata.version(name)}" for name in ("apsw", "platformdirs")]
    path = tmp_path / "some.txt"
    lines = [f"{pin} \\\n    --hash=sha256:{'0' * 64}\n" for pin in [*pins, "pywin32==312"]]
    path.write_text("".join(lines))
    return path


def test_a_bill_names_what_is_in_it_by_version_and_licence(lock: Path) -> None:
    said = json.loads(bill(lock).stdout)

    assert (said["bomFormat"], said["specVersion"]) == ("CycloneDX", "1.6")
    assert said["metadata"]["timestamp"] == "2026-01-01T00:00:00Z"
    parts = {part["name"]: part for part in said["components"]}
    assert set(parts) == {"apsw", "platformdirs", "sqlite", "python"}
    assert (
        parts["platformdirs"]["purl"] == f"pkg:pypi/platformdirs@{metadata.version('platformdirs')}"
    )
    assert all(part["licenses"] for part in parts.values())
    assert said["dependencies"][0]["dependsOn"] == [part["bom-ref"] for part in parts.values()]


def test_a_bill_is_the_same_each_time(lock: Path) -> None:
    assert bill(lock).stdout == bill(lock).stdout


def test_a_bill_of_other_versions_than_those_locked_is_refused(lock: Path) -> None:
    lock.write_text(lock.read_text().replace("platformdirs==", "platformdirs==0."))

    refused = bill(lock)

    assert refused.returncode == 1
    assert "in the lock file" in refused.stderr


def test_a_bill_of_a_binary_names_the_libraries_of_the_system_too(
    lock: Path, tmp_path: Path
) -> None:
    purl = "pkg:deb/debian/openssl@3.0.19-1?arch=source"
    native = tmp_path / "native.json"
    rows = [
        {"name": "openssl", "version": "3.0.19-1", "purl": purl},
        {"name": "zlib", "version": "", "purl": "pkg:generic/zlib"},
    ]
    native.write_text(json.dumps(rows))

    said = json.loads(bill(lock, "--native", str(native)).stdout)

    parts = {part["name"]: part for part in said["components"]}
    assert (parts["openssl"]["version"], parts["openssl"]["purl"]) == ("3.0.19-1", purl)
    assert "version" not in parts["zlib"]
    assert purl in said["dependencies"][0]["dependsOn"]
