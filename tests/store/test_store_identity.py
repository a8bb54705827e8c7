"""The name of a database."""

from __future__ import annotations

from uuid import UUID

from edgecron.store.sqlite.migrate import new_uuid


def test_a_new_name_is_a_random_uuid() -> None:
    names = {new_uuid() for _ in range(100)}

    assert len(names) == 100
    assert {(UUID(name).version, str(UUID(name)) == name) for name in names} == {(4, True)}
