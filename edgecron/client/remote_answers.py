"""What an HTTP answer is: one to our question, or why there is none. Pure."""

from __future__ import annotations

import json
from typing import Any

from edgecron.base.errors import (
    AccessRefused,
    QueryInterrupted,
    ServerLost,
    ServerUnavailable,
    ServerUnheard,
)
from edgecron.base.values import NamedTuple


class Reply(NamedTuple):
    """The body of an answer, and the server's time in RFC 3339; None if it does not say it."""

    body: bytes
    time: str | None = None


# Of what changes something, and was perhaps heard.
NOT_KNOWN = "whether it was done is not known"
LOOK = "look, and then repeat it if it was not"
_REFUSED = (401, 403)
_BEHIND = (502, 503, 504)  # what stands before a server says so where that does not answer


def judge(url: str, *, status: int, body: bytes, has_token: bool, is_write: bool) -> bytes:
    """The body of what answers a question, be it with an error of ours.

    `is_write`: what was asked changes something.

    Raises AccessRefused where a token is wanted, ServerLost where it may be back soon, and
    ServerUnavailable where that is no edgecron, or one that we can't talk to.
    """
    if 200 <= status < 300:
        return body
    error = _error_in(body)
    if error is None and status in _BEHIND:
        words = f"{url} answers with status {status}: what is behind it does not answer"
        if is_write:  # It may only take long.
            raise ServerLost(f"{words}; {NOT_KNOWN}", hint=LOOK)
        raise ServerLost(words, hint="is it served there? edgecron daemon --http")
    if error is None:
        raise ServerUnavailable(
            f"{url} is no edgecron: it answers with status {status}",
            hint="give the address of the daemon itself, as its --http has it",
        )
    if error.get("code") == "overloaded":
        # It has too much to do, or is just stopping, and has not begun with it.
        raise ServerUnheard(f"{url} does not answer: {error.get('message')}")
    if error.get("code") == QueryInterrupted.code:
        # As it stops, it ends what it is asked. Of a change it is not known where that was.
        words = f"{url} has ended what it was asked"
        raise ServerLost(f"{words}; {NOT_KNOWN}" if is_write else words, hint=LOOK)
    if status in _REFUSED and "type" not in error:
        raise _refusal(url, error, has_token=has_token)
    if error.get("code") in ("no_route", "wrong_method"):
        raise ServerUnavailable(
            f"{url} is an edgecron, and there is nothing to ask at this path of it",
            hint="give the address as its --http has it, with nothing after the port; or it is an"
            " older one: use the same version on both machines",
        )
    return body


def _refusal(url: str, error: dict[str, Any], *, has_token: bool) -> AccessRefused:
    if error.get("code") == "other_user":
        return AccessRefused(
            f"{url} refuses us: {error.get('message')}",
            hint="ask as one of those; or have it served with a token, and give that: --token-file"
            " FILE",
        )
    if not has_token:
        return AccessRefused(
            f"{url} wants a token",
            hint="give the one that its daemon was started with: --token-file FILE",
        )
    return AccessRefused(
        f"{url} refuses us: {error.get('message') or 'the token is not its own'}",
        hint="is the token in --token-file the one that its daemon was started with?",
    )


def _error_in(body: bytes) -> dict[str, Any] | None:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return None
    error = told.get("error") if isinstance(told, dict) else None
    return error if isinstance(error, dict) else None
