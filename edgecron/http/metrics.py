"""`/metrics`: what Prometheus reads, in the format that it asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgecron.base.errors import InvalidInput
from edgecron.http.answers import Answer
from edgecron.http.asking import Ask

if TYPE_CHECKING:
    from edgecron.client import Client


def get_metrics(client: Client, ask: Ask) -> Answer:
    from edgecron.client.metrics import exposition

    per_schedule = ask.first("per_schedule", "0")
    if per_schedule not in ("0", "1"):
        raise InvalidInput(f"per_schedule is {per_schedule!r}, expected 0 or 1")
    body, content_type = exposition(
        client, ask.headers.get("accept"), per_schedule=per_schedule == "1"
    )
    return Answer(body=body, media_type=content_type)
