"""Tools and Python packages that some tests need, and that a bare machine does not have.

A test without its tool is skipped, and the reason names the tool. If TESTS_REQUIRE_TOOLS is set,
as .ci/run sets it, the test fails instead.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

REQUIRE = "TESTS_REQUIRE_TOOLS"
SYSTEM_PYTHON = "/usr/bin/python3"  # Packages of the system are for it only.


def need_tools(*programs: str) -> None:
    """Skip the test unless these programs are installed."""
    _need([name for name in programs if shutil.which(name) is None])


def need_packages(*modules: str) -> None:
    """Skip the test unless these Python modules are installed: `[test-all]` has them."""
    _need([name for name in modules if find_spec(name) is None])


def need_dbusmock() -> None:
    """Skip the test unless the system's Python can play services of a system bus."""
    need_tools("dbus-daemon")
    _need([] if _has_dbusmock() else ["python3-dbusmock"])


@cache
def _has_dbusmock() -> bool:
    command = [SYSTEM_PYTHON, "-c", "import dbusmock"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def need_compiler() -> None:
    """Skip the test unless the launcher of the single binary can be compiled."""
    need_tools("gcc")
    _need([name for name in ("zstd.h",) if not Path("/usr/include", name).exists()])


@cache
def find_postgres() -> Path | None:
    """The folder of PostgreSQL's programs; None if it is not installed."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent  # a link leads to one of them only
    # Debian keeps each version apart, and none on the path.
    folders = Path("/usr/lib/postgresql").glob("*/bin")
    return max(folders, key=lambda folder: float(folder.parent.name), default=None)


def need_postgres() -> None:
    """Skip the test unless PostgreSQL and its driver are installed."""
    need_packages("psycopg")
    _need([] if find_postgres() else ["postgresql"])


def private_mounts() -> list[str]:
    """The start of a command that mounts what nobody else sees, as root in a namespace.

    Skips the test if the kernel refuses: Ubuntu's AppArmor and most containers refuse user
    namespaces to ordinary users.
    """
    command = ["unshare", "-m" if os.geteuid() == 0 else "-rm"]
    problem = _refusal(*command)
    if problem is not None:
        pytest.skip(f"needs user namespaces, which this system refuses: {problem}")
    return command


@cache
def _refusal(*command: str) -> str | None:
    script = "mount -t tmpfs tmpfs /mnt"
    tried = subprocess.run(
        [*command, "sh", "-c", script], capture_output=True, text=True, check=False
    )
    return None if tried.returncode == 0 else tried.stderr.strip() or "it failed"


def _need(missing: list[str]) -> None:
    if not missing:
        return
    reason = f"needs {', '.join(missing)}"
    if os.environ.get(REQUIRE):
        pytest.fail(f"{reason}: not installed, and {REQUIRE} is set", pytrace=False)
    pytest.skip(reason)
