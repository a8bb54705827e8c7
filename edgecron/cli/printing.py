"""What runs print, on our own streams or as JSON: cleaned on a terminal, else the very bytes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from edgecron.base.values import replace

if TYPE_CHECKING:
    from datetime import tzinfo

    from edgecron.cli.session import Session
    from edgecron.model.claim import Output, OutputChunk, Stream

    # A chunk, and the number of bytes before it that were printed and not kept.
    Piece = tuple[int, OutputChunk]


class Printer:
    """Chunks of output on stdout, or `to`, as they come.

    Cleaned on a terminal, else the very bytes. With `zone`, each line begins with the time there
    at which it came, and its stream.
    """

    def __init__(self, *, zone: tzinfo | None = None, to: TextIO | None = None) -> None:
        from edgecron.base.safetext import StreamCleaner
        from edgecron.model.claim import Stream

        self._to = to or sys.stdout
        self.is_on_terminal = self._to.isatty()
        # A chunk may end within a letter: each stream has a cleaner that keeps the rest.
        self._cleaners = {stream: StreamCleaner() for stream in Stream}
        self._last = ""
        self._zone = zone
        self._open_line: int | None = None  # the stream whose line has not ended

    def put(self, chunk: OutputChunk) -> None:
        content = chunk.content if self._zone is None else self._timed(chunk, self._zone)
        if self.is_on_terminal:
            self._write(self._cleaners[chunk.stream].feed(content))
            return
        try:
            self._to.flush()
            self._to.buffer.write(content)
            self._to.buffer.flush()
        except OSError:
            from edgecron.cli.streams import drop

            drop(self._to)  # What it holds back would be in the way of all that follows.
            raise

    def put_rest(self) -> None:
        """What was held back for what might have followed, on a terminal."""
        for cleaner in self._cleaners.values():
            self._write(cleaner.end())

    def end(self) -> None:
        """End the last line, on a terminal."""
        self.put_rest()
        if self._last and not self._last.endswith("\n"):
            self._to.write("\n")
        self._last = ""
        self._to.flush()

    def _write(self, text: str) -> None:
        self._to.write(text)
        self._to.flush()
        self._last = text or self._last

    def _timed(self, chunk: OutputChunk, zone: tzinfo) -> bytes:
        from edgecron.base.units import from_ms

        time = from_ms(chunk.at_ms).astimezone(zone).isoformat(" ", "milliseconds")[:23]
        mark = f"{time} {chunk.stream.name.lower().removeprefix('std')}  ".encode()
        parts = []
        if self._open_line not in (None, chunk.stream):
            parts.append(b"\n")  # The other stream broke into it.
            self._open_line = None
        for line in chunk.content.split(b"\n"):
            parts.append(line if self._open_line is not None or not line else mark + line)
            parts.append(b"\n")
            self._open_line = None
        parts.pop()
        if chunk.content and not chunk.content.endswith(b"\n"):
            self._open_line = chunk.stream
        return b"".join(parts)


class StreamPrinter:
    """What a run prints on its stdout and stderr, on ours; `is_silent`: nowhere."""

    def __init__(self, cli: Session, *, is_silent: bool = False) -> None:
        from edgecron.model.claim import Stream

        self._cli = cli
        self._is_silent = is_silent
        self._printers = {
            Stream.STDOUT: Printer(to=sys.stdout),
            Stream.STDERR: Printer(to=sys.stderr),
        }
        self._last = self._printers[Stream.STDOUT]

    def put(self, pieces: Iterable[Piece]) -> None:
        for skipped, chunk in pieces:
            if self._is_silent:
                continue
            if skipped:
                say_dropped(self._cli, skipped)
            self._last = self._printers[chunk.stream]
            self._last.put(chunk)

    def end(self) -> None:
        """End the last line, on a terminal; on one that both share, the very last one."""
        for printer in self._printers.values():
            if printer is not self._last and self._last.is_on_terminal:
                printer.put_rest()
            elif printer is not self._last:
                printer.end()
        self._last.end()


def put_pieces(cli: Session, pieces: Iterable[Piece], printer: Printer, *, of: str = "") -> None:
    """Output as it came, and words on stderr where some of it was not kept; `of` what, in words."""
    for skipped, chunk in pieces:
        if skipped:
            say_dropped(cli, skipped, of=of)
        printer.put(chunk)


def say_dropped(cli: Session, dropped_bytes: int, *, of: str = "") -> None:
    sys.stdout.flush()
    cli.say(f"[... {dropped_bytes:,} bytes{of} were not kept ...]")


def pieces_of(output: Output, stream: str | None = None) -> list[Piece]:
    """The chunks of a stream, or of both, and with each how much of it before was not kept."""
    pieces: list[Piece] = []
    skipped = 0
    for number, chunk in enumerate(output.chunks):
        if output.dropped_bytes and number == output.dropped_after:
            skipped = _dropped_of(output, stream)
        if _is_of(chunk, stream):
            pieces.append((skipped, chunk))
            skipped = 0
    return pieces


# While a run goes on nobody knows of which stream the bytes were that it did not keep.
OF_BOTH = " of both streams"


def only(pieces: Iterable[Piece], stream: str | None) -> list[Piece]:
    """The pieces of a stream, by its name; None is both. What was not kept is of both in any case:
    see OF_BOTH."""
    chosen: list[Piece] = []
    before = 0
    for skipped, chunk in pieces:
        before += skipped
        if _is_of(chunk, stream):
            chosen.append((before, chunk))
            before = 0
    return chosen


def last_lines(pieces: Sequence[Piece], count: int | None) -> list[Piece]:
    """What holds the last lines; one that has not ended is one. None is all of it."""
    if count is None:
        return list(pieces)
    kept: list[Piece] = []
    wanted = count
    for skipped, chunk in reversed(pieces if count else ()):
        # The newline at the very end begins no other line.
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
    """Chunks as JSON. A letter that lies in two of them is the later one's."""
    from codecs import getincrementaldecoder

    from edgecron.base.units import format_ms

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
    """How many bytes of a stream, or of both, were not kept."""
    if stream is None:
        return output.dropped_bytes
    printed = output.stdout_bytes if stream == "stdout" else output.stderr_bytes
    return printed - sum(len(chunk.content) for chunk in output.chunks if _is_of(chunk, stream))


def _last_of_streams(pieces: Sequence[Piece]) -> set[int]:
    """Where no chunk of the same stream follows, at the end and before the dropped middle."""
    lasts = set()
    followed: set[Stream] = set()
    for number in reversed(range(len(pieces))):
        skipped, chunk = pieces[number]
        if chunk.stream not in followed:
            lasts.add(number)
        followed = set() if skipped else {*followed, chunk.stream}
    return lasts
