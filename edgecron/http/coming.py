"""What comes next, of one schedule or of all."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from edgecron.http.answers import Answer, json_answer
from edgecron.http.asking import Ask
from edgecron.http.showing import shown_fires

if TYPE_CHECKING:
    from edgecron.client import Client

_LIMIT = 10


def list_next(client: Client, ask: Ask) -> Answer:
    """Fires to come, in the order in which they may start."""
    fires = list(islice(client.next_fires(ask.words.get("name")), ask.first("limit", _LIMIT)))
    return json_answer({"fires": shown_fires(client, fires)})
