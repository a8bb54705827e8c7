"""Print the output of runs: cleaned on a terminal, else the exact bytes; or as JSON."""

from __future__ import annotations

import sys
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from edgecron.base.safetext import StreamCleaner
from edgecron.base.units import format_ms, from_ms
from edgecron.base.values import replace
from edgecron.cli.output import drop, raise_lost
from edgecron.model.run import Stream

if TYPE_CHECKING:
    from datetime import tzinfo

    from edgecron.cli.session import Session
    from edgecron.model.run import Output, OutputChunk

    # A chunk, and the number of bytes before it that were not kept.
    Piece = tuple[int, OutputChunk]


class Printer:
    """Prints the output of runs: cleaned on a terminal, else the exact bytes.

    Both streams go to stdout, or each to its own with `is_split`. With `zone`, each line begins
    with its time in that zone and its stream. Parts that were not kept are noted on stderr.
    """

    def __init__(
        self,
        cli: Session,
        *,
        zone: tzinfo | None = None,
        to: TextIO | None = None,
        is_split: bool = False,
    ) -> None:
        self._cli = cli
        self._zone = zone
        first = to or sys.stdout
        self._files = {Stream.STDOUT: first, Stream.STDERR: sys.stderr if is_split else first}
        # A chunk can end inside a letter: the cleaner of its stream keeps the rest.
        self._cleaners = {stream: StreamCleaner() for stream in Stream}
        self._open_file: TextIO | None = None  # the terminal whose last line has not ended
        self._open_line: Stream | None = None  # with times: the stream whose line has not ended

    def put(self, pieces: Iterable[Piece], *, of: str = "") -> None:
        """Print chunks; `of` names the streams of lost bytes."""
        for dropped, chunk in pieces:
            if dropped:
                sys.stdout.flush()
                self._cli.say(f"[... {dropped:,} bytes{of} were not kept ...]")
            self._put_chunk(chunk)

    def end(self) -> None:
        """Print what the cleaners still hold, and end the last line on a terminal."""
        for stream, cleaner in self._cleaners.items():
            self._write(self._files[stream], cleaner.end())
        if self._open_file is not None:
            self._write(self._open_file, "\n")
        for file in self._files.values():
            file.flush()

    def _put_chunk(self, chunk: OutputChunk) -> None:
        content = chunk.content if self._zone is None else self._timed(chunk, self._zone)
        file = self._files[chunk.stream]
        if file.isatty():
            self._write(file, self._cleaners[chunk.stream].feed(content))
            return
        try:
            file.flush()
            file.buffer.write(content)
            file.buffer.flush()
        except OSError as error:
            drop(file)  # Its buffer would fail every later write.
            if file is sys.stdout:
                raise_lost(error)
            raise

    def _write(self, file: TextIO, text: str) -> None:
        if text:
            file.write(text)
            file.flush()
            self._open_file = None if text.endswith("\n") else file

    def _timed(self, chunk: OutputChunk, zone: tzinfo) -> bytes:
        time = from_ms(chunk.at_ms).astimezone(zone).isoformat(" ", "milliseconds")[:23]
        mark = f"{time} {chunk.stream.name.lower().removeprefix('std')}  ".encode()
        parts = []
        if self._open_line not in (None, chunk.stream):
            parts.append(b"\n")  # The other stream interrupted it.
            self._open_line = None
        for line in chunk.content.split(b"\n"):
            parts.append(line if self._open_line is not None or not line else mark + line)
            parts.append(b"\n")
            self._open_line = None
        parts.pop()
        if chunk.content and not chunk.content.endswith(b"\n"):
            self._open_line = chunk.stream
        return b"".join(parts)


def pieces_of(output: Output, stream: str | None = None) -> list[Piece]:
    """Return the chunks of a stream, or of both, each with the lost bytes before it."""
    pieces: list[Piece] = []
    skipped = 0
    for number, chunk in enumerate(output.chunks):
        if output.dropped_bytes and number == output.dropped_after:
            skipped = _dropped_of(output, stream)
        if _is_of(chunk, stream):
            pieces.append((skipped, chunk))
            skipped = 0
    return pieces


# While a run is active, lost bytes are counted for both streams together.
OF_BOTH = " of both streams"


def only(pieces: Iterable[Piece], stream: str | None) -> list[Piece]:
    """Return the pieces of a stream by its name; None is both. Lost bytes are of both streams."""
    chosen: list[Piece] = []
    before = 0
    for skipped, chunk in pieces:
        before += skipped
        if _is_of(chunk, stream):
            chosen.append((before, chunk))
            before = 0
    return chosen


def last_lines(pieces: Sequence[Piece], count: int | None) -> list[Piece]:
    """Return the pieces of the last lines, an unfinished one included. None is all of them."""
    if count is None:
        return list(pieces)
    kept: list[Piece] = []
    wanted = count
    for skipped, chunk in reversed(pieces if count else ()):
        # A newline at the very end does not begin another line.
        at = len(chunk.content) - (not kept and chunk.content.endswith(b"\n"))
        while wanted and (at := chunk.content.rfind(b"\n", 0, at)) >= 0:
            wanted -= 1
        if not wanted:
            rest = chunk.content[at + 1 :]
            kept += [(0, replace(chunk, content=rest))] if rest else []
            break
        kept.append((skipped, chunk))
    return kept[::-1]


def chunk_objects(execution_id: int, pieces: Sequence[Piece]) -> Iterator[dict[str, object]]:
    """Return chunks as JSON objects. A letter split over two chunks is in the later one."""
    lasts = _last_of_streams(pieces)
    decoders = {number: getincrementaldecoder("utf-8")("replace") for number in (1, 2)}
    for number, (_, chunk) in enumerate(pieces):
        yield {
            "run": execution_id,
            "stream": chunk.stream.name.lower(),
            "at": format_ms(chunk.at_ms),
            "text": decoders[chunk.stream].decode(chunk.content, final=number in lasts),
        }


def _is_of(chunk: OutputChunk, stream: str | None) -> bool:
    return stream is None or chunk.stream.name.lower() == stream


def _dropped_of(output: Output, stream: str | None) -> int:
    """Count the bytes of a stream, or of both, that were not kept."""
    if stream is None:
        return output.dropped_bytes
    printed = output.stdout_bytes if stream == "stdout" else output.stderr_bytes
    return printed - sum(len(chunk.content) for chunk in output.chunks if _is_of(chunk, stream))


def _last_of_streams(pieces: Sequence[Piece]) -> set[int]:
    """Return the positions of each stream's last chunks: at the end and before a gap."""
    lasts = set()
    followed: set[Stream] = set()
    for number in reversed(range(len(pieces))):
        skipped, chunk = pieces[number]
        if chunk.stream not in followed:
            lasts.add(number)
        followed = set() if skipped else {*followed, chunk.stream}
    return lasts
