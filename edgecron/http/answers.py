"""Answers, as handlers give them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from edgecron.base.values import dataclass, field

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is answered: `body` as it is, of that type."""

    status: int = 200
    body: bytes = b""
    media_type: str | None = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


def json_answer(
    content: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Answer:
    """An answer in JSON."""
    return Answer(status=status, body=json_bytes(content), headers=headers or {})


def json_bytes(content: object) -> bytes:
    """JSON as it goes out: ASCII, so that no text of a job's can break it."""
    return json.dumps(content, separators=(",", ":")).encode()
