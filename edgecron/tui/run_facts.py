"""Facts of one run for its screen: read in one question, laid out as rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, tzinfo
from enum import Enum

from edgecron.base.safetext import clean
from edgecron.base.values import NamedTuple, replace
from edgecron.client.protocol import Client
from edgecron.client.sentences import find_active, find_place
from edgecron.formats.option_texts import is_secret
from edgecron.model.choices import JobKind, Reason, Status, WaitsFor
from edgecron.model.run import Execution
from edgecron.model.schedule import ScheduleSpec
from edgecron.supervisor.environment import given_variables
from edgecron.tui.text_line import Cells, Fact, Row, Span, Title
from edgecron.tui.themes import STATUS_GLYPHS
from edgecron.views.outlook import ActiveRun
from edgecron.views.phrases import (
    display_width,
    failure_words,
    fit,
    folded,
    job_words,
    percent_words,
    status_words,
    took_ms,
)
from edgecron.views.run_words import run_lines, run_sentence
from edgecron.views.schedule_words import waits_words
from edgecron.views.times import full_time, near_time, short_duration

_DONE, _LEFT = "━", "─"  # of the same height in every font
_BAR = 20  # columns, among facts
_WIDEST = 40
_RUN_STYLES = {Status.RUNNING: "busy", Status.SUCCESS: "good"}
HIDDEN = "(hidden: the name looks like a secret)"
_CELL_LABEL = 9
_CELL = 26  # columns of a fact in the summary
_MOST_DOWN = 3
_EARLIER = 8
# All other facts are the outcome.
_BEGINNING = ("attempt", "cause", "trigger", "scope")
_TIMES = ("plan", "missed", "due", "waiting", "started", "finished", "took")
# If there is no room, the last ones are left out.
_BY_WEIGHT = (
    *("started", "took", "exit code", "attempt", "finished", "plan"),
    *("cause", "engine", "scope"),
)


def progress_rows(run: Execution) -> list[Row]:
    """Return the progress bar and its text; nothing if the run reported no progress."""
    if run.progress is None:
        return []
    text = Fact("", run.progress.text)
    if run.progress.fraction is None:
        return [text._replace(label="progress")]
    return [Cells((*_bar(run, run.progress.fraction, _BAR), _percent(run)), "progress"), text]


def progress_line(run: Execution, *, width: int) -> list[Span]:
    """Return bar and text in one line; nothing without progress or after a success."""
    progress = run.progress
    if progress is None or run.status is Status.SUCCESS:
        return []
    text = clean(progress.text)
    if progress.fraction is None:
        return [(" progress  ", "dim"), (text, _run_style(run))]
    # A third of the line at most: the text matters more than a long bar.
    bar = _bar(run, progress.fraction, max(8, min(_WIDEST, width // 3)))
    return [(" ", ""), *bar, _percent(run), (f"  {text}", "")]


def _bar(run: Execution, fraction: float, width: int) -> tuple[Span, ...]:
    done = int(fraction * width)
    return (_DONE * done, _run_style(run)), (_LEFT * (width - done), "faint")


def _percent(run: Execution) -> Span:
    assert run.progress is not None
    return f" {percent_words(run.progress):>4}", _run_style(run)


def _run_style(run: Execution) -> str:
    return _RUN_STYLES.get(run.status, "dim")


class RunFacts(NamedTuple):
    """A run, its schedule at that time, its engine, its other attempts, and what it waits for.

    `spec` is None if it can't be read any more, `engine_pid` if the engine has ended.
    """

    run: Execution
    spec: ScheduleSpec | None
    engine_pid: int | None
    engine_words: str
    attempt_before: int | None
    attempt_after: int | None
    waiting: ActiveRun | None
    machine: str | None = None  # of a running run, if engines run on other machines
    earlier: tuple[Execution, ...] = ()  # runs of its schedule, newest first


def read_run(client: Client, execution_id: int) -> RunFacts:
    """Read everything the screen shows of a run. Raises NotFound."""
    run = client.execution(execution_id)
    engine = None
    if run.engine_id is not None:
        engine = next((one for one in client.engines() if one.info.id == run.engine_id), None)
    before = after = None
    if run.max_attempts > 1:
        # The attempt before is the one after the attempt before that.
        before = client.next_attempt(replace(run, attempt=run.attempt - 2))
        after = client.next_attempt(run)
    earlier = client.run_page(
        schedule_ids=[run.schedule_id], before_id=execution_id, limit=_EARLIER
    )
    return RunFacts(
        run=run,
        spec=client.spec_of(run),
        engine_pid=None if engine is None else engine.info.pid,
        engine_words="has ended" if engine is None else engine.health.value,
        attempt_before=None if before is None else before.id,
        attempt_after=None if after is None else after.id,
        waiting=find_active(client, run) if run.status is Status.QUEUED else None,
        machine=find_place(client, run),
        earlier=tuple(earlier.runs),
    )


class Neighbor(Enum):
    """A neighbour of a run in its schedule."""

    OLDER = "older"
    NEWER = "newer"


def find_neighbor(client: Client, execution_id: int, beside: Neighbor) -> int | None:
    """Find the run before or after a run of its schedule; None if there is none."""
    schedules = [client.execution(execution_id).schedule_id]
    if beside is Neighbor.OLDER:
        found = client.run_page(schedule_ids=schedules, before_id=execution_id, limit=1).runs
    else:
        found = client.run_page(schedule_ids=schedules, after_id=execution_id, limit=1).runs
    return found[0].id if found else None


def wait_words(found: RunFacts, *, now: datetime, zone: tzinfo) -> str:
    """Say what a queued run waits for; empty if unknown or not queued."""
    if found.waiting is None or found.waiting.waits_for is None:
        return ""
    return clean(waits_words(found.waiting, zone=zone, now=now))


def changes_each_second(found: RunFacts) -> bool:
    """Return whether a shown time changes every second."""
    is_held = found.waiting is not None and found.waiting.waits_for is WaitsFor.TIME
    return found.run.status is Status.RUNNING or is_held


def title_spans(run: Execution, *, older: str, newer: str) -> tuple[list[Span], list[Span]]:
    """Return the title line: its schedule and status, and its number at the right end.

    `older` and `newer` are the keys of the runs beside it; empty if they have none.
    """
    glyph, style = STATUS_GLYPHS[run.status.value]
    left = [
        (" edgecron ", "bold"),
        (" run  ", "dim"),
        (clean(run.schedule), "bold"),
        (f"  {glyph} {status_words(run)}", style),
    ]
    right = [
        (older or "<", "accent@screen.older_run"),
        (f" run {run.id} ", "dim"),
        (newer or ">", "accent@screen.newer_run"),
        (" ", ""),
    ]
    return left, right


def all_facts(found: RunFacts, *, now: datetime, zone: tzinfo) -> list[Row]:
    """Return all facts that exist, in the order people ask for them."""
    run = found.run
    timezone = None if found.spec is None else found.spec.timezone
    facts = dict(run_lines(run, zone=zone, now=now, mask=None)) | {
        "plan": full_time(run.plan_at, timezone, zone=zone),
        "waiting": wait_words(found, now=now, zone=zone).removeprefix("waits "),
        "engine": _engine_words(found),
        "supervisor": run.supervisor_id or "",
        "progress": "",  # shown as a bar
        "payload": "",  # shown with the job
    }
    if run.max_attempts > 1:
        facts["attempt"] = _attempt_words(found)
    styles = {
        "error": "bad",
        "took": _duration_style(run),
        "status": STATUS_GLYPHS[run.status.value][1],
    }

    def section(labels: Iterable[str]) -> list[Fact]:
        return [Fact(label, facts.get(label, ""), styles.get(label, "")) for label in labels]

    rows: list[Row] = [
        Fact("why", run_sentence(run, zone=zone, now=now, spec=found.spec)),
        *progress_rows(run),
        *section(_BEGINNING),
        Title("Times"),
        *section(_TIMES),
        Title("Outcome"),
        *section(label for label in facts if label not in (*_BEGINNING, *_TIMES)),
        Title("Job"),
        *_job(found),
        *_earlier_runs(found.earlier, now=now, zone=zone),
    ]
    return [row for row in rows if not isinstance(row, Fact) or row.text]


def main_facts(found: RunFacts, *, now: datetime, zone: tzinfo) -> list[Fact]:
    """Return the main facts in few words: times, outcome, engine."""
    run = found.run
    took = took_ms(run, now=now)

    def near(instant: datetime | None) -> str:
        return "-" if instant is None else near_time(instant, zone=zone, now=now)

    exit_code = "-" if run.exit_code is None else str(run.exit_code)
    facts = [
        Fact("plan", near(run.plan_at)),
        Fact("started", near(run.started_at)),
        Fact("finished", near(run.finished_at)),
        Fact("took", short_duration(took), _duration_style(run)),
        Fact("attempt", f"{run.attempt} of {run.max_attempts}"),
        Fact("exit code", exit_code, "bad" if run.reason is Reason.EXIT else ""),
        Fact("cause", run.cause.value.replace("_", " ")),
        Fact("scope", _scope_words(run)),
        Fact("engine", "-" if run.engine_id is None else f"{run.engine_id}{_on(found)}"),
    ]
    return [fact._replace(text=clean(fact.text)) for fact in facts]


def _duration_style(run: Execution) -> str:
    return "busy" if run.status is Status.RUNNING else ""


def _earlier_runs(runs: Sequence[Execution], *, now: datetime, zone: tzinfo) -> list[Row]:
    """Return a line for each run: its number, outcome, time, duration and failure."""
    rows: list[Row] = [Title("Earlier runs")] if runs else []
    for run in runs:
        glyph, style = STATUS_GLYPHS[run.status.value]
        took = took_ms(run, now=now)
        began = near_time(run.started_at or run.plan_at, zone=zone, now=now)
        duration = "" if took is None else short_duration(took)
        spans = ((glyph, style), (f"  {began:<12}", ""), (f"  {duration:>8}", ""))
        rows.append(Cells((*spans, (f"  {clean(failure_words(run))}", "dim")), str(run.id)))
    return rows


def _scope_words(run: Execution) -> str:
    return f"{run.scope_kind}:{run.scope_id}" if run.scope_id else run.scope_kind


def _attempt_words(found: RunFacts) -> str:
    words = f"{found.run.attempt} of {found.run.max_attempts}"
    if found.attempt_before is not None:
        words += f"; previous: run {found.attempt_before}"
    if found.attempt_after is not None:
        words += f"; next: run {found.attempt_after}"
    return words


def _engine_words(found: RunFacts) -> str:
    if found.run.engine_id is None:
        return ""
    pid = "" if found.engine_pid is None else f"process {found.engine_pid}, "
    return f"{found.run.engine_id}{_on(found)}  ({pid}{found.engine_words})"


def _on(found: RunFacts) -> str:
    return "" if found.machine is None else f" on {found.machine}"


def _job(found: RunFacts) -> list[Fact]:
    """Return its job, and what the job was given."""
    if found.spec is None:
        return [Fact("job", "this revision of the schedule is unreadable", "dim")]
    job = found.spec.job
    facts = [
        Fact("job", f"{job_words(found.spec)}  ({job.kind})"),
        Fact("folder", job.cwd or ""),
        Fact("user", job.user or ""),
        Fact("stdin", job.stdin or ""),
        Fact("env file", job.env_file or ""),
    ]
    if job.kind is JobKind.CALLABLE:
        return [*facts, Fact("payload", found.run.payload or job.payload or "")]
    given = given_variables(found.run, job).items()
    shown = [f"{name}={HIDDEN if is_secret(name, value) else value}" for name, value in given]
    return [*facts, Fact("environment", "\n".join(shown))]


def summary_lines(
    found: RunFacts, *, now: datetime, zone: tzinfo, width: int, most: int
) -> list[list[Span]]:
    """Return a sentence and the main facts in columns: at most `most` lines."""
    far = progress_line(found.run, width=width)
    most -= bool(far)
    sentence = clean(run_sentence(found.run, zone=zone, now=now, spec=found.spec))
    sentence_lines = [f" {part}" for part in folded(sentence, max(1, width - 2))]
    across = max(1, (width - 1) // _CELL)
    down = min(-(-len(_BY_WEIGHT) // across), _MOST_DOWN, most)
    room = most - down
    if len(sentence_lines) > room:
        sentence_lines = sentence_lines[:room]
        sentence_lines[-1:] = [fit(f"{line} …", width - 1) for line in sentence_lines[-1:]]
    facts = {fact.label: fact for fact in main_facts(found, now=now, zone=zone)}
    shown = [facts[label] for label in facts if label in _BY_WEIGHT[: across * down]]
    rows = [[span for fact in shown[row::down] for span in _cell(fact)] for row in range(down)]
    return [*([(line, "")] for line in sentence_lines), *([far] if far else []), *rows]


def _cell(fact: Fact) -> list[Span]:
    label = " " + fit(fact.label, _CELL_LABEL) + " "
    room = _CELL - len(label) - 1
    text = fact.text if display_width(fact.text) <= room else fit(fact.text, room)
    return [(label, "dim"), (text, fact.style), (" " * (room + 1 - display_width(text)), "")]
