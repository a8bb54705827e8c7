"""Single binaries to start: small ones, each with a place of its own to unpack to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.binary.bundles import Binary, compile_launcher, packing, small_files
from tests.support.tools import need_compiler, need_packages

Make = Callable[..., Binary]


@pytest.fixture(scope="session")
def pack() -> ModuleType:
    need_packages("zstandard")
    return packing()


@pytest.fixture(scope="session")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    need_compiler()
    return compile_launcher(tmp_path_factory.mktemp("launcher"))


@pytest.fixture
def make(tmp_path: Path, pack: ModuleType, launcher: bytes) -> Make:
    """A small binary of a version, with other files where told; all unpack to the same place."""

    def made(version: str = "1.0.0", *, name: str = "edgecron", **more: str) -> Binary:
        content = pack.packed(
            small_files(pack, **more), launcher=launcher, version=version, level=1
        )
        return Binary(tmp_path / name, content=content, places=tmp_path / "places")

    return made


@pytest.fixture
def binary(make: Make) -> Binary:
    return make()
