"""What a run printed: of a run by its number, or of the newest run of a schedule.

    edgecron logs backup
    edgecron logs 41 --stream stderr
    edgecron logs 41 --times                when each line was printed, and on which stream
    edgecron logs -f backup                 as it comes, until the run has ended
    edgecron logs backup > backup.log       the very bytes
    edgecron logs backup --result           the JSON that it left in the file $EDGECRON_RESULT

On a terminal, what it would obey is shown and not sent.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, TextIO

from edgecron.cli.session import Session, stalled_engine_words
from edgecron.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo

    from edgecron.api import Scheduler
    from edgecron.model import Execution, Output, OutputChunk, Stream

USAGE = "RUN|NAME [-f] [--stream stdout|stderr] [--times] [--result] [--json]"
_MOST_ID = 2**63 - 1
_STREAMS = ("stdout", "stderr")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN|NAME", help="a run's number, or a schedule")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the run has ended")
    parser.add_argument("--stream", metavar="stdout|stderr", help="one of them only")
    parser.add_argument(
        "-t", "--times", action="store_true", help="time and stream before each line"
    )
    parser.add_argument("--result", action="store_true", help="the JSON result that it left")


def run(cli: Session, args: Namespace) -> int:
    from edgecron.cli.options import UsageError
    from edgecron.model import ACTIVE, Output, Status

    if args.stream is not None and args.stream not in _STREAMS:
        raise UsageError(f"--stream is {args.stream!r}, expected stdout or stderr")
    if args.result:
        _refuse_beside_result(args)
    scheduler = cli.scheduler(must_exist=True)
    execution = _find_run(cli, scheduler, args.run)
    if execution.status is Status.RUNNING:
        scheduler.take_over()  # It may have ended with no engine there to write it down.
        execution = scheduler.execution(execution.id)
    if args.result:
        put_result(cli, execution)
        return 0
    printer = Printer(zone=cli.zone() if args.times else None)
    if args.follow:
        return _follow(cli, scheduler, execution, stream=args.stream, printer=printer)
    output = scheduler.output(execution.id)
    if output is None and execution.status is Status.RUNNING:
        output = Output(chunks=tuple(scheduler.output_so_far(execution)))
    if cli.is_json:
        chunks = () if output is None else _chosen(output, args.stream)
        cli.put_json(_chunk_objects(execution.id, chunks))
    elif output is not None:
        put_output(cli, output, stream=args.stream, printer=printer)
    if execution.status in ACTIVE or (output is None and not cli.is_json):
        words = _state_words(cli, scheduler, execution)
        cli.say(f"run {execution.id} of {execution.schedule} {words}")
    return 0


def put_result(cli: Session, execution: Execution) -> None:
    """The JSON that a run left, on a line. Raises NotFound where it left none."""
    import json

    if execution.result is None:
        raise NotFound(
            f"run {execution.id} of {execution.schedule} {_no_result_words(execution)}",
            hint="a job may write up to 64 KiB of JSON into the file that EDGECRON_RESULT names",
        )
    result = json.loads(execution.result)
    if cli.is_json:
        cli.put_json([{"run": execution.id, "result": result}])
    else:
        # As edgecron writes all JSON: no letter of it can reach for the terminal.
        cli.put(json.dumps(result))


def _no_result_words(execution: Execution) -> str:
    from edgecron.model import ACTIVE

    if execution.status in ACTIVE:
        return "has not ended yet, and its result comes with its end"
    if "result_too_big" in execution.flags:
        return "left a result that was too big to keep"
    if "result_invalid" in execution.flags:
        return "left a result that is no JSON"
    return "left no result"


def put_output(
    cli: Session,
    output: Output,
    *,
    stream: str | None = None,
    printer: Printer | None = None,
    to_stderr: bool = False,
) -> None:
    """A run's output on stdout, as it came: cleaned on a terminal, else the very bytes."""
    printer = printer or Printer(to=sys.stderr if to_stderr else sys.stdout)
    for is_after_gap, chunk in _chosen(output, stream):
        if is_after_gap and (dropped := _dropped_of(output, stream)):
            _say_dropped(cli, dropped)
        printer.put(chunk)
    printer.end()


def _refuse_beside_result(args: Namespace) -> None:
    from edgecron.cli.options import UsageError

    if args.follow or args.times or args.stream is not None:
        raise UsageError("--result is the result alone", hint="leave out -f, --times and --stream")


def _follow(
    cli: Session,
    scheduler: Scheduler,
    execution: Execution,
    *,
    stream: str | None,
    printer: Printer,
) -> int:
    from edgecron.cli.options import UsageError

    if cli.is_json:
        raise UsageError("logs -f gives no JSON", hint="leave out -f or --json")
    words = stalled_engine_words(cli, execution)
    if words is not None:
        cli.warn(words)
    for skipped, chunk in scheduler.follow(execution.id):
        if skipped:
            _say_dropped(cli, skipped)
        if stream is None or chunk.stream.name.lower() == stream:
            printer.put(chunk)
    printer.end()
    return 0


class Printer:
    """Chunks of output on stdout, or `to`, as they come.

    Cleaned on a terminal, else the very bytes. With `zone`, each line begins with the time there
    at which it came, and its stream.
    """

    def __init__(self, *, zone: tzinfo | None = None, to: TextIO | None = None) -> None:
        from edgecron.model import Stream
        from edgecron.safetext import StreamCleaner

        self._to = to or sys.stdout
        self._is_cleaned = self._to.isatty()
        # A chunk may end within a letter: each stream has a cleaner that keeps the rest.
        self._cleaners = {stream: StreamCleaner() for stream in Stream}
        self._last = ""
        self._zone = zone
        self._open_line: int | None = None  # the stream whose line has not ended

    def put(self, chunk: OutputChunk) -> None:
        content = chunk.content if self._zone is None else self._timed(chunk, self._zone)
        if not self._is_cleaned:
            self._to.flush()
            self._to.buffer.write(content)
            self._to.buffer.flush()
            return
        self._write(self._cleaners[chunk.stream].feed(content))

    def end(self) -> None:
        """End the last line, on a terminal."""
        for cleaner in self._cleaners.values():
            self._write(cleaner.end())
        if self._last and not self._last.endswith("\n"):
            self._to.write("\n")
        self._to.flush()

    def _write(self, text: str) -> None:
        self._to.write(text)
        self._to.flush()
        self._last = text or self._last

    def _timed(self, chunk: OutputChunk, zone: tzinfo) -> bytes:
        from edgecron.timetext import from_ms

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


def _find_run(cli: Session, scheduler: Scheduler, word: str) -> Execution:
    """The run of this number, or the newest of the schedule of this name. Raises NotFound."""
    if not (word.isascii() and word.isdigit()):
        from edgecron.cli.history import say_removed

        execution = scheduler.last_run(word)
        say_removed(cli, scheduler, word)
        return execution
    from edgecron.cli.options import read_count

    return scheduler.execution(read_count(word, what="RUN", most=_MOST_ID))


def _state_words(cli: Session, scheduler: Scheduler, execution: Execution) -> str:
    from edgecron.cli.phrases import status_words, waiting_words
    from edgecron.model import Status

    if execution.status is Status.RUNNING:
        return "is still running: -f goes on until it has ended"
    if execution.status is Status.QUEUED:
        if execution.waiting_for is None or execution.wait_until is None:
            return "has not started yet"
        words = waiting_words(
            execution.waiting_for, execution.wait_until, zone=cli.zone(), now=scheduler.now()
        )
        return f"has not started yet: it {words}"
    if execution.status is Status.INTERRUPTED:
        return "was interrupted, and its output was lost with its supervisor"
    more = f"; {execution.error_msg}" if execution.error_msg else ""
    return f"printed nothing ({status_words(execution)}{more})"


def _chosen(output: Output, stream: str | None) -> list[tuple[bool, OutputChunk]]:
    """The chunks of a stream, or of both; True with the first one behind the dropped middle."""
    chosen = []
    is_after_gap = False
    for number, chunk in enumerate(output.chunks):
        if output.dropped_bytes and number == output.dropped_after:
            is_after_gap = True
        if stream is None or chunk.stream.name.lower() == stream:
            chosen.append((is_after_gap, chunk))
            is_after_gap = False
    return chosen


def _dropped_of(output: Output, stream: str | None) -> int:
    """How many bytes of a stream, or of both, were not kept."""
    if stream is None:
        return output.dropped_bytes
    printed = output.stdout_bytes if stream == "stdout" else output.stderr_bytes
    return printed - sum(len(chunk.content) for _, chunk in _chosen(output, stream))


def _say_dropped(cli: Session, dropped_bytes: int) -> None:
    sys.stdout.flush()
    cli.say(f"[... {dropped_bytes:,} bytes were not kept ...]")


def _chunk_objects(
    execution_id: int, chosen: Sequence[tuple[bool, OutputChunk]]
) -> Iterator[dict[str, object]]:
    """Chunks as JSON. A letter that lies in two of them is the later one's."""
    from codecs import getincrementaldecoder

    from edgecron.timetext import format_ms

    lasts = _last_of_streams(chosen)
    decoders = {number: getincrementaldecoder("utf-8")("replace") for number in (1, 2)}
    for number, (_, chunk) in enumerate(chosen):
        yield {
            "run": execution_id,
            "stream": chunk.stream.name.lower(),
            "at": format_ms(chunk.at_ms),
            "text": decoders[chunk.stream].decode(chunk.content, final=number in lasts),
        }


def _last_of_streams(chosen: Sequence[tuple[bool, OutputChunk]]) -> set[int]:
    """Where no chunk of the same stream follows, at the end and before the dropped middle."""
    lasts = set()
    followed: set[Stream] = set()
    for number in reversed(range(len(chosen))):
        is_after_gap, chunk = chosen[number]
        if chunk.stream not in followed:
            lasts.add(number)
        followed = set() if is_after_gap else {*followed, chunk.stream}
    return lasts
