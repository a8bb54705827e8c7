"""Many connections at the same moment: what they take of the process that serves."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import ExitStack, closing, suppress
from pathlib import Path

from edgecron.http.access import Limits
from edgecron.http.connections import Server
from tests.support.servingloops import server_of

BOUND_S = 10.0
CROWD = 400
HELD = 2


def open_files() -> set[tuple[int, int]]:
    """The open descriptors of this process, each with the file behind it."""
    found = set()
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # The descriptor of the listing itself is closed again.
            found.add((int(name), os.fstat(int(name)).st_ino))
    return found


async def most_opened(server: Server, listener: socket.socket) -> int:
    """How many descriptors a server had at most while a crowd was hung up that came at once."""
    serving = asyncio.create_task(server.serve([listener]))
    async with asyncio.timeout(BOUND_S):
        while not server.started:
            await asyncio.sleep(0)
        with ExitStack() as stack:
            links = [
                stack.enter_context(closing(socket.create_connection(listener.getsockname())))
                for _ in range(CROWD)
            ]
            # Other tests' garbage may be closed while we count.
            before, most = open_files(), 0
            left = {link.fileno(): link for link in links}
            while len(left) > HELD:
                await asyncio.sleep(0)
                most = max(most, len(open_files() - before))
                for number, link in list(left.items()):
                    link.setblocking(False)
                    try:
                        link.recv(1000)
                    except BlockingIOError:
                        continue
                    except ConnectionResetError:
                        pass
                    del left[number]
        server.stop()
        await serving
    return most


def test_a_crowd_at_once_takes_few_descriptors_of_the_process_that_starts_commands(
    tmp_path: Path,
) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    most = asyncio.run(
        most_opened(server_of(tmp_path / "edge.db", limits=Limits(connections=HELD)), listener)
    )

    assert HELD < most < 200
