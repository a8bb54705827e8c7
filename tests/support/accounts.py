"""Tests that need root, to become somebody else. `.ci/run` has them run as root where it is not."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from typing import TypeVar

import pytest

from edgecron.supervisor.protocol import Identity

Test = TypeVar("Test", bound=Callable[..., None])

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")


def as_root(test: Test) -> Test:
    """Mark a test that has to change the user."""
    marked: Test = pytest.mark.root(NEEDS_ROOT(test))
    return marked


def identity(name: str = "nobody", **changes: object) -> Identity:
    """An account of every system, with its own group alone unless told otherwise."""
    entry = pwd.getpwnam(name)
    values: dict[str, object] = {
        "name": name,
        "uid": entry.pw_uid,
        "gid": entry.pw_gid,
        "groups": (entry.pw_gid,),
    }
    return Identity(**(values | changes))  # type: ignore[arg-type]
