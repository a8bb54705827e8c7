"""What comes next, of one schedule or of all."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from edgecron.http.answers import Answer, json_answer
from edgecron.http.asking import Ask
from edgecron.http.showing import shown_fires
from edgecron.model.filters import parse_filter

if TYPE_CHECKING:
    from edgecron.client import Client

_LIMIT = 10


def list_next(client: Client, ask: Ask) -> Answer:
    """Fires to come, in the order in which they may start."""
    skip: int = ask.first("skip", 0)
    text = ask.first("filter")
    fires = client.next_fires(
        ask.words.get("name", ask.first("schedule")),
        matches=None if text is None else parse_filter(text),
    )
    page = list(islice(fires, skip, skip + ask.first("limit", _LIMIT)))
    return json_answer({"fires": shown_fires(client, page)})
