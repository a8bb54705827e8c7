"""The output of a run, followed by the program to its end."""

from __future__ import annotations

from collections.abc import Iterator

from edgecron.client import Client
from edgecron.client.following import Piece
from edgecron.model.choices import ACTIVE, Status


def follow(client: Client, execution_id: int) -> Iterator[Piece]:
    """What a run prints, from its beginning to its end, each chunk once."""
    with client.follower(execution_id) as follower:
        while (run := client.execution(execution_id)).status in ACTIVE:
            yield from follower.read(run)
            if follower.is_due_for_check and run.status is Status.RUNNING:
                client.take_over()
            follower.wait()
        yield from follower.read_stored()
