"""What the crontab tests share: one way to read a text, with the real trigger gate."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edgecron.crontab import Crontab, read_crontab

USERS = frozenset({"root", "alice", "bob", "www-data"})


@pytest.fixture
def read() -> Callable[..., Crontab]:
    """Read as alice, in the user format, unless told otherwise."""

    def read_as(
        content: bytes | str,
        *,
        system: bool | None = False,
        importer: str = "alice",
        owner: str | None = None,
    ) -> Crontab:
        return read_crontab(
            content,
            system=system,
            importer=importer,
            is_root=importer == "root",
            user_exists=USERS.__contains__,
            owner=owner,
        )

    return read_as
