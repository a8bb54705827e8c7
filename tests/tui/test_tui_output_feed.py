"""What a run prints reaches the screen: each byte once, a delivery at a time, to its end."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from edgecron.base.errors import EdgecronError, NotFound
from edgecron.client import Client
from edgecron.client.following import Piece
from edgecron.model.choices import Status
from edgecron.model.run import Stream
from edgecron.tui.run_screen import OutputEnd, OutputFeed
from tests.support.engines import Place
from tests.support.processes import BOUND_S


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(tmp_path, stack)


class Screen:
    """The other end of a feed: what is delivered is done when the test says so."""

    def __init__(
        self,
        place: Place,
        execution_id: int,
        *,
        opened: Callable[[], Client] | None = None,
    ) -> None:
        self._delivered: queue.Queue[Callable[[], None]] = queue.Queue()
        self.pieces: list[Piece] = []
        self.end: OutputEnd | None = None
        self.errors: list[EdgecronError] = []
        self.deliveries = 0
        self.feed = OutputFeed(
            opened or (lambda: Client(place.database, must_exist=True)),
            execution_id,
            deliver=self._delivered.put,
            take=self._take,
            ended=self._note_end,
            refused=self.errors.append,
        )
        self.feed.start()

    def _take(self, pieces: Sequence[Piece]) -> None:
        self.pieces += pieces

    def _note_end(self, end: OutputEnd) -> None:
        self.end = end

    @property
    def is_idle(self) -> bool:
        return self._delivered.empty()

    def text(self, stream: Stream = Stream.STDOUT) -> bytes:
        return b"".join(chunk.content for _, chunk in self.pieces if chunk.stream is stream)

    def step(self) -> None:
        """Do the next thing that is delivered."""
        self._delivered.get(timeout=BOUND_S)()
        self.deliveries += 1

    def step_until(self, is_reached: Callable[[], bool]) -> None:
        while not is_reached():
            self.step()


@pytest.fixture
def watch(place: Place) -> Iterator[Callable[[int], Screen]]:
    screens: list[Screen] = []

    def start(execution_id: int) -> Screen:
        screens.append(Screen(place, execution_id))
        return screens[-1]

    yield start
    for screen in screens:
        screen.feed.close()


def run_to_end(place: Place, line: str) -> int:
    place.add("job", "@yearly", line)
    daemon = place.daemon()
    [run] = place.client.run_now("job")
    daemon.wait_for("ended")
    return run.id


def test_what_a_run_has_printed_comes_with_its_end(
    place: Place, watch: Callable[[int], Screen]
) -> None:
    execution_id = run_to_end(place, "echo out; echo err >&2; exit 3")

    screen = watch(execution_id)
    screen.step_until(lambda: screen.end is not None)

    assert (screen.text(), screen.text(Stream.STDERR)) == (b"out\n", b"err\n")
    assert screen.end is not None
    assert (screen.end.execution.status, screen.end.printed_bytes) == (Status.FAILED, 8)
    assert screen.end.removed_at is None


def test_a_run_is_followed_while_it_prints(place: Place, watch: Callable[[int], Screen]) -> None:
    place.add("job", "@yearly", f"echo one; {place.gate.line}; echo two")
    place.daemon()
    [run] = place.client.run_now("job")
    place.gate.wait_arrival()

    screen = watch(run.id)
    screen.step_until(lambda: screen.text() == b"one\n")
    place.gate.open()
    screen.step_until(lambda: screen.end is not None)

    assert screen.text() == b"one\ntwo\n"


def test_what_a_screen_has_no_time_for_stays_with_the_supervisor(
    place: Place, watch: Callable[[int], Screen]
) -> None:
    bytes_each, count = 1024 * 1024, 20
    flood = f"head -c {bytes_each * count} /dev/zero | tr '\\0' 'a'"
    place.add("job", "@yearly", f"echo begin; {place.gate.line}; {flood}")
    daemon = place.daemon()
    [run] = place.client.run_now("job")
    place.gate.wait_arrival()

    screen = watch(run.id)
    screen.step_until(lambda: screen.text() == b"begin\n")
    place.gate.open()
    daemon.wait_for("ended")  # It goes on whether anybody looks or not.
    screen.step_until(lambda: screen.end is not None)

    printed = sum(skipped + len(chunk.content) for skipped, chunk in screen.pieces)
    assert screen.end is not None
    assert printed == screen.end.printed_bytes == bytes_each * count + len("begin\n")
    assert sum(len(chunk.content) for _, chunk in screen.pieces) < bytes_each * 2


def test_one_delivery_waits_for_the_one_before(
    place: Place, watch: Callable[[int], Screen]
) -> None:
    place.add("job", "@yearly", f"echo one; {place.gate.line}; echo two; {place.gate.line}")
    place.daemon()
    [run] = place.client.run_now("job")
    place.gate.wait_arrival()

    screen = watch(run.id)
    place.gate.open()
    place.gate.wait_arrival()
    screen.step_until(lambda: screen.text() == b"one\ntwo\n")

    assert screen.deliveries <= 2
    assert screen.is_idle


def test_a_run_that_still_waits_is_followed_from_its_start(
    place: Place, watch: Callable[[int], Screen]
) -> None:
    place.add("job", "@yearly", "echo late")
    [run] = place.client.run_now("job")

    screen = watch(run.id)
    place.daemon()
    screen.step_until(lambda: screen.end is not None)

    assert screen.text() == b"late\n"


def test_a_feed_ends_at_once_while_its_run_goes_on(
    place: Place, watch: Callable[[int], Screen]
) -> None:
    place.add("job", "@yearly", f"echo one; {place.gate.line}")
    place.daemon()
    [run] = place.client.run_now("job")
    place.gate.wait_arrival()

    screen = Screen(place, run.id)
    screen.step_until(lambda: screen.text() == b"one\n")
    screen.feed.close()

    assert not screen.feed.is_alive
    assert place.client.execution(run.id).status is Status.RUNNING


def test_a_run_that_is_not_there_is_told(place: Place, watch: Callable[[int], Screen]) -> None:
    place.add("job", "@yearly", "true")

    screen = watch(77)
    screen.step_until(lambda: bool(screen.errors))

    assert screen.errors[0].message == "there is no run 77"


def test_what_goes_wrong_again_and_again_is_told_once_and_the_run_is_followed_in_the_end(
    place: Place,
) -> None:
    execution_id = run_to_end(place, "echo done")
    aside = place.database.with_name("aside.db")
    place.client.close()
    place.database.rename(aside)
    opened: list[Client] = []

    def reopened() -> Client:
        if len(opened) == 2:
            aside.rename(place.database)
        opened.append(Client(place.database, must_exist=True))
        return opened[-1]

    screen = Screen(place, execution_id, opened=reopened)
    try:
        screen.step_until(lambda: screen.end is not None)
    finally:
        screen.feed.close()

    assert [type(error) for error in screen.errors] == [NotFound]
    assert screen.text() == b"done\n"


def test_a_defect_is_raised_on_the_screen_s_thread(place: Place) -> None:
    def fail() -> Client:
        raise LookupError("a defect")

    screen = Screen(place, 1, opened=fail)
    try:
        with pytest.raises(LookupError, match="a defect"):
            screen.step()
    finally:
        screen.feed.close()
