"""`/metrics`: what Prometheus reads, in the format that it asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgecron.http.answers import Answer
from edgecron.http.asking import Ask

if TYPE_CHECKING:
    from edgecron.api import Client


def get_metrics(client: Client, ask: Ask) -> Answer:
    from edgecron.metrics import exposition

    body, content_type = exposition(client, ask.headers.get("accept"))
    return Answer(body=body, media_type=content_type)
