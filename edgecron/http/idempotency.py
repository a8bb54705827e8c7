"""The header by which a request is done once, however often it is sent: Idempotency-Key.

As the draft of the IETF has it (draft-ietf-httpapi-idempotency-key-header), in quotes; without
them, as most clients write it, it is the same key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from edgecron.http.asking import Parameter

# 1 to 255 characters, bare or as a String of structured fields (RFC 9651).
_BARE = r"[!#-~]([ -~]{0,253}[!-~])?"
_QUOTED = r'"([ !#-\[\]-~]|\\["\\]){1,255}"'
IDEMPOTENCY_KEY = Parameter(
    name="Idempotency-Key",
    shape={
        "type": "string",
        "minLength": 1,
        "maxLength": 512,
        "pattern": f"^({_BARE}|{_QUOTED})$",
        "format": "idempotency-key",
        "description": "1 to 255 printable characters of ASCII, in quotes or without",
    },
    words="run it once for this key of yours: sent again within 24 hours, such as where the answer"
    " was lost, it gives the same runs, as they are then, while they are not pruned; later, too,"
    " while they are among its newest 100. A key is the schedule's own; with another payload it is"
    " 422 idempotency_key_reused",
)


def find_key(headers: Mapping[str, str]) -> str | None:
    """The key of a request that is of the shape above, None where it has none."""
    given = headers.get(IDEMPOTENCY_KEY.name.lower())
    if given is None or not given.startswith('"'):
        return given
    return re.sub(r"\\(.)", r"\1", given[1:-1])
