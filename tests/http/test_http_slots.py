"""Slots of connections: no client takes those of others, and a silent one keeps nobody out."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPResponse
from pathlib import Path

import pytest

from edgecron.base.sockets import own_users
from edgecron.http.access import Limits, Slot, Slots
from tests.support.http import Api, serving

BOUND_S = 10.0
HEAD = b"Host: 127.0.0.1\r\nContent-Type: application/json\r\n"
HALF_BODY = b"PUT /api/v1/schedules/a HTTP/1.1\r\n" + HEAD + b"Content-Length: 99\r\n\r\n{"
LIMITS = Limits(
    connections=3,
    peer_connections=2,
    strangers=3,
    new_at_once=5,
    new_each_s=1,
    head_s=60,
    body_s=60,
)


class Links:
    """Connections to a socket that only listens, from any address of this machine."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._listener = stack.enter_context(closing(socket.create_server(("127.0.0.1", 0))))
        self.hung_up: list[int] = []

    def link(self, host: str = "127.0.0.1", *, says: bytes = b"") -> socket.socket:
        """The server's end of a new connection."""
        other = socket.create_connection(self._listener.getsockname(), source_address=(host, 0))
        self._stack.enter_context(closing(other))
        found = self._stack.enter_context(closing(self._listener.accept()[0]))
        if says:
            other.sendall(says)
            assert found.recv(1, socket.MSG_PEEK)  # It is there.
        return found

    def take(
        self, slots: Slots, number: int, host: str = "127.0.0.1", *, says: bytes = b""
    ) -> Slot | None:
        """Ask for the place of a new connection, at so many seconds."""
        link = self.link(host, says=says)
        return slots.take(link, lambda: self.hung_up.append(number), now_s=number)


@pytest.fixture
def links() -> Iterator[Links]:
    with ExitStack() as stack:
        yield Links(stack)


def test_the_connection_that_was_silent_for_longest_ends_for_a_new_one(links: Links) -> None:
    slots = Slots(LIMITS, users=own_users())
    first, _, _ = (links.take(slots, number) for number in range(3))
    assert first is not None
    first.waits_since_s = None  # It is being answered.

    assert links.take(slots, 10) is not None
    assert links.hung_up == [1]


def test_a_connection_whose_request_waits_to_be_read_is_not_silent(links: Links) -> None:
    slots = Slots(LIMITS, users=own_users())
    for number in range(2):
        assert links.take(slots, number, says=b"GET")
    links.take(slots, 2)

    assert links.take(slots, 3, says=b"GET") is not None
    assert links.take(slots, 4) is None
    assert links.hung_up == [2]


def test_a_peer_loses_its_own_places_and_not_those_of_others(links: Links) -> None:
    slots = Slots(LIMITS, users=None)
    assert links.take(slots, 0, "127.0.0.2") is not None

    assert all(links.take(slots, number, "127.0.0.3") for number in range(1, 5))

    assert links.hung_up == [1, 2]


def test_whoever_has_most_places_loses_one_where_all_are_taken(links: Links) -> None:
    slots = Slots(LIMITS, users=None)
    for number, host in enumerate(("127.0.0.2", "127.0.0.3", "127.0.0.3")):
        links.take(slots, number, host)

    assert links.take(slots, 3, "127.0.0.4") is not None
    assert links.hung_up == [1]


def test_a_stranger_opens_only_so_many_connections_in_a_while(links: Links) -> None:
    slots = Slots(LIMITS, users=None)

    at_once = [links.take(slots, 0) is not None for _ in range(7)]
    another = links.take(slots, 0, "127.0.0.2")
    later = [links.take(slots, 2) is not None for _ in range(3)]

    assert at_once == [True] * 5 + [False] * 2
    assert another is not None
    assert later == [True, True, False]


def test_the_owner_is_active_while_answered_and_for_a_moment_after(links: Links) -> None:
    slots = Slots(LIMITS, users=own_users())
    slot = links.take(slots, 0)
    assert slot is not None

    soon, later = slots.is_owner_active(0.001), slots.is_owner_active(1)
    slot.waits_since_s = None

    assert (soon, later, slots.is_owner_active(1)) == (True, False, True)


def test_the_owner_opens_as_many_connections_as_he_likes(links: Links) -> None:
    slots = Slots(LIMITS, users=own_users())

    assert all(links.take(slots, 0) for _ in range(50))


def test_who_has_shown_the_token_is_the_owner_and_takes_no_place_of_strangers(
    links: Links,
) -> None:
    slots = Slots(LIMITS, users=None)
    for _ in range(20):  # More than there are slots.
        slot = links.take(slots, 0)
        assert slot is not None
        slot.admit()
        assert slot.is_own
        slot.waits_since_s = 1.0

    assert links.hung_up == [0] * 17
    assert links.take(slots, 0) is not None


def test_a_place_is_free_again_after_its_connection(links: Links) -> None:
    slots = Slots(LIMITS, users=own_users())
    for number in range(3):
        slot = links.take(slots, number, says=b"GET")
    assert slot is not None
    assert links.take(slots, 3) is None

    slots.leave(slot)
    slots.leave(slot)

    assert links.take(slots, 4) is not None


# Over a server.


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serving(tmp_path / "edge.db", limits=LIMITS) as api:
        yield api


@pytest.mark.parametrize("said", [b"", b"GET /heal", HALF_BODY])
def test_silent_and_half_sent_requests_keep_nobody_out(api: Api, said: bytes) -> None:
    with ExitStack() as stack:
        for _ in range(LIMITS.connections * 5):
            link = stack.enter_context(closing(socket.create_connection(("127.0.0.1", api.port))))
            link.sendall(said)
            # What came before has been read once this is answered.
            assert api.get("/healthz").status == 200


def test_who_gets_no_slot_is_told_to_come_again(tmp_path: Path) -> None:
    limits = Limits(peer_connections=0)
    with (
        serving(tmp_path / "edge.db", limits=limits, users=frozenset()) as api,
        closing(socket.create_connection(("127.0.0.1", api.port), timeout=BOUND_S)) as link,
    ):
        heard = b"".join(iter(lambda: link.recv(65536), b""))

    assert heard.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1" in heard
    assert b'"code":"overloaded"' in heard


def test_a_stranger_keeps_a_connection_once_it_has_shown_the_token(tmp_path: Path) -> None:
    token = "a-word-that-nobody-guesses"
    asked = b"GET /api/v1/schedules HTTP/1.1\r\nHost: x\r\n"
    good = asked + f"Authorization: Bearer {token}\r\n\r\n".encode()
    with (
        serving(tmp_path / "edge.db", token=token, limits=LIMITS, users=frozenset()) as api,
        closing(socket.create_connection(("127.0.0.1", api.port), timeout=BOUND_S)) as link,
        closing(socket.create_connection(("127.0.0.1", api.port), timeout=BOUND_S)) as other,
    ):
        answers = []
        for _ in range(3):
            link.sendall(good)
            with HTTPResponse(link) as answer:  # It might come in several parts.
                answer.begin()
                answers.append((answer.status, answer.read() != b""))
        other.sendall(asked + b"\r\n" + good)
        refused = b"".join(iter(lambda: other.recv(65536), b""))

    assert answers == [(200, True)] * 3
    assert refused.startswith(b"HTTP/1.1 401 ")
    assert refused.count(b"HTTP/1.1 ") == 1
