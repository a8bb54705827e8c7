"""How a server stops: nobody who has just come is left to wait."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing
from pathlib import Path

import pytest

from edgecron.http.connections import Server
from tests.support.servingloops import server_of

BOUND_S = 10.0


async def connected_as_it_stops(
    server: Server, listener: socket.socket, *, turns: int
) -> socket.socket:
    """A connection that came so many turns of the loop before its server was told to stop."""
    serving = asyncio.create_task(server.serve([listener]))
    async with asyncio.timeout(BOUND_S):
        while not server.started:
            await asyncio.sleep(0)
    link = socket.create_connection(listener.getsockname(), timeout=BOUND_S)
    for _ in range(turns):
        await asyncio.sleep(0)
    server.stop()
    await serving
    return link


@pytest.mark.parametrize("turns", range(6))
def test_who_comes_just_when_a_server_stops_is_not_left_to_wait(tmp_path: Path, turns: int) -> None:
    """Between a connection and its protocol lie some turns of the loop: each of them is tried."""
    listener = socket.create_server(("127.0.0.1", 0))

    link = asyncio.run(
        connected_as_it_stops(server_of(tmp_path / "edge.db"), listener, turns=turns)
    )

    with closing(link):
        try:
            heard = link.recv(1)
        except ConnectionResetError:
            heard = b""
    assert heard == b""
