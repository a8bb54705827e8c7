"""Who may ask: by a token, or from this machine alone, and then from no page of another site.

Whoever may ask can run commands as this user. So of this machine's users, without a token, only
those are answered who could do so anyway: this one, and root. Two things are told to all of them,
since what watches a machine, such as Prometheus, is a user of its own: whether we are well, and the
metrics. Those hold the names of schedules, how they go and how large the database is, and never
what is run; a token closes them, or a Unix socket. Where no kernel tells whose a connection is, all
of them are answered, and a server of root's does not start: see `serving`.

A browser lets any page talk to this machine. So without a token the name that was asked for must
be one of this machine's own: any other is a site's that has pointed its name here. And what a page
of another site asks is refused, read or write: nothing here is for it. No answer carries a header
by which a browser would let it read one.
"""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Callable, Collection, Mapping

from edgecron.base.values import dataclass
from edgecron.http.error_answers import Refused
from edgecron.http.messages import JSON, MERGE_PATCH

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_OWN_SITES = ("same-origin", "none")  # of Sec-Fetch-Site: no page asks, or one of our own
OPEN_PATHS = ("/healthz",)  # what is told there is told to anybody
_TOLD_TO_ALL_USERS = (*OPEN_PATHS, "/metrics")  # of this machine, where there is no token
_READING = ("GET", "HEAD")
FindUser = Callable[[], int | None]  # whose a connection is, None where that can't be told


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """What is asked of a request. `token` None asks for none, `hosts` None takes any name.

    `users` are the numbers of those who may ask, None for any.
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
        """Raise Refused for who may not ask, and for a body that is not JSON.

        `headers` are by their names in small letters; `find_user` is called if it matters. False
        if a stranger is answered, who may ask what anybody may.
        """
        host = headers.get("host", "")
        self._check_site(host, headers)
        if method not in _READING or path not in _TOLD_TO_ALL_USERS:
            self._check_user(find_user)
        if path not in OPEN_PATHS:
            self._check_token(headers)
        if has_body(headers):
            _check_type(method, headers.get("content-type", ""))
        if self.token is None:
            return method not in _READING or path not in _TOLD_TO_ALL_USERS
        return path not in OPEN_PATHS

    def _check_site(self, host: str, headers: Mapping[str, str]) -> None:
        name = re.sub(r":[0-9]*$", "", host).strip("[]").lower()
        if self.hosts is not None and name not in self.hosts:
            raise Refused(
                421,
                "wrong_host",
                f"host {host[:80]!a} is none of this server's names",
                hint=f"ask for it as {min(self.hosts)}, or serve it with a token",
            )
        origin = headers.get("origin")
        is_own = origin is None or origin.lower() in (f"http://{host}", f"https://{host}")
        if not is_own or headers.get("sec-fetch-site", "none") not in _OWN_SITES:
            raise Refused(403, "wrong_origin", "pages of other sites may ask nothing")

    def _check_user(self, find_user: FindUser) -> None:
        if self.users is None:
            return
        user = find_user()
        if user not in self.users:
            raise Refused(
                403,
                "other_user",
                f"it answers user {os.geteuid()} and root alone, and "
                + ("can't tell whose this is" if user is None else f"this is user {user}"),
                hint="ask as one of those, also over its socket (--http unix:); or have it served"
                " with a token, --token-file FILE, and send that",
            )

    def _check_token(self, headers: Mapping[str, str]) -> None:
        if self.token is None:
            return
        kind, _, given = headers.get("authorization", "").partition(" ")
        # Both as bytes: text outside ASCII can't be compared in constant time.
        is_right = hmac.compare_digest(given.strip().encode(), self.token.encode())
        if kind.lower() != "bearer" or not is_right:
            raise Refused(
                401,
                "unauthorized",
                "the token is missing" if not given else "the token is wrong",
                hint="send it as: Authorization: Bearer TOKEN",
                headers={"www-authenticate": 'Bearer realm="edgecron"'},
            )


def has_body(headers: Mapping[str, str]) -> bool:
    """Whether a body follows a head."""
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
