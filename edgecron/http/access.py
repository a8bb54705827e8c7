"""Decide who can use the API: by a token, or by the user of a connection.

All users of the API can run commands as this user. Without a token it therefore answers only this
user and root. All users of the machine can read /healthz and /metrics, because monitoring runs as a
user of its own: they show names and counts of schedules, never commands. A token or a Unix socket
closes /metrics too. If the kernel does not tell the users of connections, all users are answered,
and a server of root does not start: see `serving`.

A browser lets any page send requests to this machine. Without a token, the Host header must
therefore be a name of this machine: any other belongs to a site that points its name here. Requests
of pages of other sites are refused. No answer has a header that lets such a page read it.
"""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Callable, Collection, Mapping

from edgecron.base.values import dataclass
from edgecron.http.messages import JSON, MERGE_PATCH, Refused

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_OWN_SITES = ("same-origin", "none")  # of Sec-Fetch-Site: no page, or our own
OPEN_PATHS = ("/healthz",)  # open to everybody
_OPEN_TO_ALL_USERS = (*OPEN_PATHS, "/metrics")  # of this machine, if there is no token
_READING = ("GET", "HEAD")
FindUser = Callable[[], int | None]  # the user of a connection; None if unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """The conditions of a request. None means no condition.

    `users` are the ids of the users who can use the API.
    """

    token: str | None = None
    hosts: Collection[str] | None = LOOPBACK
    users: Collection[int] | None = None

    def check(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        find_user: FindUser = lambda: None,
    ) -> bool:
        """Raise Refused for a request that is not permitted, or whose body is not JSON.

        Return whether the request comes from the owner, and not from a stranger who reads an open
        path. `headers` have lower-case names; `find_user` is called if it matters.
        """
        host = headers.get("host", "")
        self._check_site(host, headers)
        if method not in _READING or path not in _OPEN_TO_ALL_USERS:
            self._check_user(find_user)
        if path not in OPEN_PATHS:
            self._check_token(headers)
        if has_body(headers):
            _check_type(method, headers.get("content-type", ""))
        if self.token is None:
            return method not in _READING or path not in _OPEN_TO_ALL_USERS
        return path not in OPEN_PATHS

    def _check_site(self, host: str, headers: Mapping[str, str]) -> None:
        name = re.sub(r":[0-9]*$", "", host).strip("[]").lower()
        if self.hosts is not None and name not in self.hosts:
            raise Refused(
                421,
                "wrong_host",
                f"host {host[:80]!a} is not a name of this server",
                hint=f"use {min(self.hosts)} as the host, or start the server with a token",
            )
        origin = headers.get("origin")
        is_own = origin is None or origin.lower() in (f"http://{host}", f"https://{host}")
        if not is_own or headers.get("sec-fetch-site", "none") not in _OWN_SITES:
            raise Refused(403, "wrong_origin", "requests from pages of other sites are refused")

    def _check_user(self, find_user: FindUser) -> None:
        if self.users is None:
            return
        user = find_user()
        if user not in self.users:
            raise Refused(
                403,
                "other_user",
                f"the server answers only user {os.geteuid()} and root, and the request is from "
                + ("an unknown user" if user is None else f"user {user}"),
                hint="send the request as one of these users; or start the server with a token"
                " (--token-file FILE), and send the token",
            )

    def _check_token(self, headers: Mapping[str, str]) -> None:
        if self.token is None:
            return
        kind, _, given = headers.get("authorization", "").partition(" ")
        # As bytes: other text than ASCII can't be compared in constant time.
        is_right = hmac.compare_digest(given.strip().encode(), self.token.encode())
        if kind.lower() != "bearer" or not is_right:
            raise Refused(
                401,
                "unauthorized",
                "the token is wrong" if given else "the token is missing",
                hint="send the token of the server's token file, as: Authorization: Bearer TOKEN",
                headers={"www-authenticate": 'Bearer realm="edgecron"'},
            )


def has_body(headers: Mapping[str, str]) -> bool:
    """Whether a request has a body, by its headers."""
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def _check_type(method: str, given: str) -> None:
    kind = given.partition(";")[0].strip().lower()
    allowed = (JSON, MERGE_PATCH) if method == "PATCH" else (JSON,)
    if kind not in allowed:
        raise Refused(
            415,
            "wrong_type",
            f"the body is {kind[:80]!a}, expected {allowed[0]}",
            hint=f"send the header Content-Type: {allowed[0]}",
        )
