"""Whose a connection is, by the kernel's tables: as Linux 6.18 has printed them."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from edgecron.base.sockets import (
    End,
    Row,
    ask_rows,
    end_of,
    find_rows,
    find_user_of,
    own_users,
    read_answer,
    read_tables,
    request,
    tells_users,
    user_of,
)

HEAD = (
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid"
    "  timeout inode\n"
)
LISTENER = (
    "   0: 0100007F:C3B7 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0"
    "        0 2289794 1 00000000fc21f297 100 0 0 10 0\n"
)
OURS = (
    "  11: 0100007F:C3B7 0100007F:8A81 01 00000000:00000000 00:00000000 00000000     0"
    "        0 2289796 1 0000000076d30abd 20 0 0 10 -1\n"
)
THEIRS = (
    "  25: 0100007F:8A81 0100007F:C3B7 01 00000000:00000000 00:00000000 00000000 65534"
    "        0 2289795 2 000000003735384e 20 0 0 10 -1\n"
)
CLOSED = (
    "  25: 0100007F:8A81 0100007F:C3B7 04 00000001:00000000 01:00000013 00000000     0"
    "        0 0 2 000000003735384e 20 0 0 11 -1\n"
)
ELSEWHERE = (
    "  12: 0302017F:8CC3 0100007F:B487 01 00000000:00000000 00:00000000 00000000  1000"
    "        0 2289801 1 000000001e1ba805 20 0 0 10 -1\n"
)
MAPPED = (
    "   0: 0000000000000000FFFF00000100007F:E39E 0000000000000000FFFF00000100007F:961B 01"
    " 00000000:00000000 00:00000000 00000000 65534        0 2289803 2 00000000 20 0 0 10 -1\n"
)
SIX = (
    "   2: 00000000000000000000000001000000:E23E 00000000000000000000000001000000:E813 01"
    " 00000000:00000000 00:00000000 00000000 4294967294        0 2289806 2 00000000 20 0 0 10 -1\n"
)
NOBODY = 65534


def user_in(
    table: str,
    peer: tuple[str, int] = ("127.0.0.1", 0x8A81),
    own: tuple[str, int] = ("127.0.0.1", 0xC3B7),
) -> int | None:
    rows = find_rows(
        HEAD + LISTENER + OURS + table,
        of=end_of(peer),
        to=end_of(own),
    )
    return user_of(rows)


def test_it_is_the_user_of_the_row_whose_ends_are_ours_changed_over() -> None:
    assert user_in(THEIRS) == NOBODY


def test_who_has_said_all_and_listens_still_is_told() -> None:
    assert user_in(THEIRS.replace(" 01 0", " 04 0")) == NOBODY
    assert user_in(THEIRS.replace(" 01 0", " 05 0")) == NOBODY


def test_another_address_of_this_machine_is_told() -> None:
    assert user_in(ELSEWHERE, ("127.1.2.3", 0x8CC3), ("127.0.0.1", 0xB487)) == 1000


def test_a_socket_of_ipv6_that_speaks_ipv4_is_told() -> None:
    assert user_in(MAPPED, ("127.0.0.1", 0xE39E), ("127.0.0.1", 0x961B)) == NOBODY


def test_ipv6_is_told_and_the_largest_number() -> None:
    assert user_in(SIX, ("::1", 0xE23E), ("::1", 0xE813)) == 4294967294


@pytest.mark.parametrize(
    "table",
    [
        "",
        CLOSED,  # as kernels before 6.17 have it
        CLOSED.replace("    0        0 0", "65534        0 0"),  # as those after it have it
        CLOSED.replace(" 04 0", " 06 0"),  # TIME_WAIT
        THEIRS.replace(" 01 0", " 02 0"),  # SYN_SENT
        THEIRS.replace(" 01 0", " 08 0"),  # CLOSE_WAIT: we have hung up
        THEIRS + THEIRS.replace("65534", "    0"),
        THEIRS + CLOSED,
        THEIRS[:90],
        ELSEWHERE,
        MAPPED,
    ],
)
def test_whom_the_tables_do_not_tell_is_nobody(table: str) -> None:
    assert user_in(table) is None


def test_a_row_that_is_read_twice_is_one() -> None:
    assert user_in(THEIRS + THEIRS.replace("25:", "26:")) == NOBODY


class Connection:
    """A true connection within this process, its two ends closed in the end."""

    def __init__(self, stack: ExitStack, family: int, host: str) -> None:
        listener = stack.enter_context(closing(socket.socket(family)))
        listener.bind((host, 0))
        listener.listen()
        self.port = listener.getsockname()[1]
        self._listener = listener
        self._stack = stack

    def made_by(self, family: int, host: str, *, own: str = "") -> socket.socket:
        link = self._stack.enter_context(closing(socket.socket(family)))
        if own:
            link.bind((own, 0))
        link.connect((host, self.port))
        return link

    def taken(self) -> socket.socket:
        return self._stack.enter_context(closing(self._listener.accept()[0]))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def user_in_tables(link: socket.socket) -> int | None:
    """Whose its other end is where the kernel can't be asked for one socket."""
    return find_user_of(link, ask=lambda *, of, to: [])


@pytest.mark.parametrize(
    ("served", "host", "family", "asked", "own"),
    [
        (socket.AF_INET, "127.0.0.1", socket.AF_INET, "127.0.0.1", ""),
        (socket.AF_INET, "127.0.0.1", socket.AF_INET, "127.0.0.1", "127.9.8.7"),
        (socket.AF_INET, "127.3.2.1", socket.AF_INET, "127.3.2.1", ""),
        (socket.AF_INET, "127.0.0.1", socket.AF_INET6, "::ffff:127.0.0.1", ""),
        (socket.AF_INET6, "::1", socket.AF_INET6, "::1", ""),
        (socket.AF_INET6, "::", socket.AF_INET, "127.0.0.1", ""),
        (socket.AF_INET6, "::", socket.AF_INET6, "::ffff:127.0.0.1", ""),
    ],
)
def test_this_machine_tells_that_a_connection_of_ours_is_ours(
    stack: ExitStack, served: int, host: str, family: int, asked: str, own: str
) -> None:
    connection = Connection(stack, served, host)
    link = connection.made_by(family, asked, own=own)
    taken = connection.taken()

    assert find_user_of(taken) == os.geteuid()
    assert find_user_of(link) == os.geteuid()
    assert user_in_tables(taken) == os.geteuid()
    link.shutdown(socket.SHUT_WR)
    assert find_user_of(taken) == os.geteuid()
    assert user_in_tables(taken) == os.geteuid()


@pytest.mark.parametrize("is_reset", [False, True])
def test_who_has_closed_is_nobody_although_what_he_sent_is_there(
    stack: ExitStack, is_reset: bool
) -> None:
    connection = Connection(stack, socket.AF_INET, "127.0.0.1")
    link = connection.made_by(socket.AF_INET, "127.0.0.1")
    link.send(b"words")
    if is_reset:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    link.close()
    taken = connection.taken()

    assert find_user_of(taken) is None
    assert user_in_tables(taken) is None
    assert taken.recv(10) == b"words"


def test_of_a_connection_that_ends_while_it_is_looked_for_nobody_is_told(
    stack: ExitStack,
) -> None:
    connection = Connection(stack, socket.AF_INET, "127.0.0.1")
    link = connection.made_by(socket.AF_INET, "127.0.0.1")
    taken = connection.taken()

    def ask(*, of: End, to: End) -> list[Row]:
        """As if another's connection had the same ends by the time of the answer."""
        rows = ask_rows(of=of, to=to) or find_rows(read_tables(), of=of, to=to)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        link.close()
        return rows

    assert find_user_of(taken, ask=ask) is None


def test_of_no_connection_over_tcp_nobody_is_told() -> None:
    one, other = socket.socketpair()
    with closing(one), closing(other):
        assert find_user_of(one) is None


def proc(folder: Path, **files: str) -> Path:
    """A folder as /proc is, with these files of `self`."""
    for name, content in files.items():
        path = folder / "self" / name.replace("_", "/", 1)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


def test_a_kernel_without_ipv6_tells_all_the_same(tmp_path: Path) -> None:
    assert read_tables(proc(tmp_path, net_tcp=HEAD + THEIRS)) == HEAD + THEIRS


def test_where_there_is_no_proc_nobody_is_told(tmp_path: Path) -> None:
    assert tells_users()
    assert not tells_users(tmp_path)
    assert not tells_users(proc(tmp_path, net_tcp=""))
    assert tells_users(proc(tmp_path, net_tcp=HEAD))


ALL = "         0          0 4294967295\n"


def test_this_user_and_root_can_do_what_we_can(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/uid_map").write_text(ALL)

    assert own_users(tmp_path) == {os.geteuid(), 0}


@pytest.mark.parametrize("uid_map", ["", "         0       1000          1\n"])
def test_in_a_user_namespace_the_number_of_all_unknown_users_is_nobody_s(
    tmp_path: Path, uid_map: str
) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "sys/kernel").mkdir(parents=True)
    (tmp_path / "self/uid_map").write_text(uid_map)
    (tmp_path / "sys/kernel/overflowuid").write_text(f"{os.geteuid()}\n")

    assert os.geteuid() not in own_users(tmp_path)


PEER, OWN = End(b"\x7f\0\0\1", 0x8A81), End(b"\x7f\0\0\1", 0xC3B7)


def answer(
    *, family: int = socket.AF_INET, state: int = 1, of: End = PEER, to: End = OWN, uid: int = 1000
) -> bytes:
    """What the kernel answers, as struct inet_diag_msg has it."""
    packed = [
        bytes(10) + b"\xff\xff" + end.address
        if family == socket.AF_INET6 and len(end.address) == 4
        else end.address
        for end in (of, to)
    ]
    ports = struct.pack(">HH", of.port, to.port)
    ends = b"".join(one.ljust(16, b"\0") for one in packed)
    rest = struct.pack("=12xIIIII", 0, 0, 0, uid, 77)
    body = struct.pack("=BBBB", family, state, 0, 0) + ports + ends + rest
    return struct.pack("=IHHII", 16 + len(body), 20, 0, 0, 0) + body


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_an_answer_about_one_socket_tells_its_user(family: int) -> None:
    assert read_answer(answer(family=family), of=PEER, to=OWN) == [Row(1, 1000, 77)]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        answer()[:80],
        struct.pack("=IHHIIi", 36, 2, 0, 0, 0, -2) + bytes(16),  # NLMSG_ERROR, ENOENT
        struct.pack("=IHHII", 88, 2, 0, 0, 0) + answer()[16:],
        answer(state=10, to=End(bytes(4), 0)),  # what listens there
        answer(of=OWN, to=PEER),
        answer(of=End(PEER.address, 1)),
    ],
)
def test_an_answer_about_another_socket_tells_nothing(content: bytes) -> None:
    assert read_answer(content, of=PEER, to=OWN) == []


def test_the_kernel_is_asked_for_one_socket_by_its_ends() -> None:
    asked = request(of=PEER, to=OWN)

    assert len(asked) == struct.unpack_from("=I", asked)[0] == 72
    assert asked[24:28] == b"\x8a\x81\xc3\xb7"


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_of_what_listens_nothing_is_told_but_of_who_is_connected(
    stack: ExitStack, family: int
) -> None:
    host = "127.0.0.1" if family == socket.AF_INET else "::1"
    connection = Connection(stack, family, host)
    served = end_of((host, connection.port))
    link = connection.made_by(family, host)
    peer = end_of(link.getsockname())

    # This kernel can be asked, as that of any distribution; where not, the tables are read.
    assert [row.uid for row in ask_rows(of=peer, to=served)] in ([os.geteuid()], [])
    assert ask_rows(of=served, to=end_of((host, 1))) == []
