"""Check the draft of a form against the database, preview its times, and save it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, tzinfo

from edgecron.base.checks import check_name
from edgecron.base.errors import (
    AlreadyExists,
    Conflict,
    EdgecronError,
    InvalidInput,
    InvalidTrigger,
)
from edgecron.base.values import NamedTuple, dataclass, replace
from edgecron.base.zones import check_zone
from edgecron.client import Client as LocalClient
from edgecron.client.protocol import Client
from edgecron.formats import option_texts as values
from edgecron.formats.document_schedule import NO_COMMAND, NO_TIME, read_table
from edgecron.formats.document_tables import (
    SWITCHED,
    Action,
    Problem,
    Step,
    Table,
    compare_one,
    find_changes,
    need_unchanged,
    schedule_table,
)
from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from edgecron.model.schedule import Schedule, ScheduleSpec
from edgecron.triggers import OnceInTrigger, Trigger, describe, parse_trigger
from edgecron.tui.form_fields import Texts, field_of, lines_of, split_time, table_of
from edgecron.views.changes import (
    find_missing_command,
    find_missing_folder,
    kept_words,
    secret_words,
)
from edgecron.views.outlook import Foreseen
from edgecron.views.phrases import next_sentence

UPCOMING = 10
_BOUNDS = ("from", "until", "max_runs", "jitter", "between", "not_between", "except")
_STAND_IN = "example"  # H needs a name


class Draft(NamedTuple):
    """The texts of a form. `opened` is the schedule to change; None for a new one.

    `before` are the first texts, made from the table `base`. A text that did not change keeps its
    value of the table.
    """

    texts: Texts
    opened: Schedule | None
    base: Table
    before: Texts

    @property
    def name(self) -> str:
        return self.texts["name"].strip()

    @property
    def known(self) -> tuple[str, ...]:
        return () if self.opened is None else self.opened.spec.triggers


class TimeLine(NamedTuple):
    """A line of `when`, with its meaning or its problem in words."""

    text: str
    words: str
    is_wrong: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The lines of `when`, and the times they and the bounds give.

    `fires` are (due time, text of the trigger). `notes` are on clock changes.
    """

    lines: tuple[TimeLine, ...] = ()
    triggers: tuple[Trigger, ...] = ()
    timezone: str | None = None
    fires: tuple[tuple[datetime, str | None], ...] = ()
    notes: tuple[str, ...] = ()
    jitter_warning: str | None = None
    window_warning: str | None = None

    @property
    def is_wrong(self) -> bool:
        """Whether a line can't be read."""
        return any(line.is_wrong for line in self.lines)


class FormCheck(NamedTuple):
    """The result of checking a draft.

    `problems` and `cautions` are by field ('' for none). `others` says what other people changed in
    the schedule since the form was opened.
    """

    problems: Mapping[str, str]
    cautions: Mapping[str, str]
    times: Times
    is_clock_trusted: bool
    others: str = ""


class Saved(NamedTuple):
    """A saved schedule, and its changed keys; none if it is new."""

    schedule: Schedule
    changed: tuple[str, ...]
    is_new: bool
    is_clock_trusted: bool
    note: str | None = None  # that former secrets stay in the database


def check_draft(client: Client, draft: Draft) -> FormCheck:
    """Check a draft as `add` or `edit` would; write nothing."""
    now = client.now()
    table, found = table_of(draft.texts, base=draft.base, before=draft.before)
    wanted, wrong = read_table(draft.name, table, now=now, known=draft.known)
    problems = _problems_by_field(draft, [*found, *wrong])
    if wanted is not None and not problems:
        problems |= _check_in_database(client, compare_one(wanted, draft.opened))
    times = _read_times(client, draft, table, now=now)
    job = None if wanted is None else wanted.spec.job
    return FormCheck(
        problems=problems,
        cautions=_cautions(job, times, is_here=isinstance(client, LocalClient)),
        times=times,
        is_clock_trusted=client.is_clock_trusted(),
        others=_changes_by_others(client, draft.opened),
    )


def save_draft(client: Client, draft: Draft, *, over: Schedule | None) -> Saved:
    """Write a draft. `over` is the schedule as last read.

    Changes by others since the form was opened stay, except in fields that the draft changes too.
    Raises ChangedByOthers if it was changed since `over`, and whatever `add` and `edit` raise.
    """
    now = client.now()
    current, base = over, draft.base
    if over is not None:
        current = client.schedule(over.name)
        need_unchanged(over, current)
        base = schedule_table(current)
    table, found = table_of(draft.texts, base=base, before=draft.before)
    wanted, wrong = read_table(draft.name, table, now=now, known=draft.known)
    if wanted is None or found:
        first = (found or wrong)[0]
        raise InvalidInput(first.message, hint=first.hint)
    step = compare_one(wanted, current)
    is_trusted = client.is_clock_trusted()
    if step.action is Action.KEEP and current is not None:
        return Saved(current, (), is_new=False, is_clock_trusted=is_trusted)
    [schedule] = client.apply((step,), origin="dashboard")
    keys = tuple(change.key for change in step.changes)
    note = kept_words(step.changes, forget=f"edgecron prune --forget {schedule.name}")
    return Saved(schedule, keys, is_new=current is None, is_clock_trusted=is_trusted, note=note)


def saved_words(saved: Saved, *, zone: tzinfo, now: datetime, undo_key: str) -> str:
    """Say what was saved, when the schedule runs next, and the key that undoes this."""
    schedule, is_trusted = saved.schedule, saved.is_clock_trusted
    when = next_sentence(schedule, zone=zone, now=now, is_clock_trusted=is_trusted)
    undo = f"; {undo_key} undoes it" if undo_key else ""
    if saved.is_new:
        return f"added {schedule.name}; {when}{undo}"
    if saved.changed:
        fields = dict.fromkeys(field_of(key) or key for key in saved.changed)
        return f"changed {schedule.name}: {', '.join(fields)}; {when}{undo}"
    return f"nothing changed in schedule {schedule.name}"


def _changes_by_others(client: Client, opened: Schedule | None) -> str:
    """Say what others changed in the schedule since the form was opened; '' if nothing."""
    if opened is None:
        return ""
    try:
        current = client.schedule(opened.name)
    except EdgecronError as error:
        return error.message
    if (current.id, current.revision) == (opened.id, opened.revision):
        return ""
    changes = find_changes(schedule_table(opened), schedule_table(current))
    keys = ", ".join(change.key for change in changes)
    return f"others changed this schedule meanwhile: {keys}" if keys else ""


def _problems_by_field(draft: Draft, found: list[Problem]) -> dict[str, str]:
    """Return the first problem of each field."""
    problems: dict[str, str] = {}
    for problem in found:
        field = field_of(problem.key)
        words = problem.message
        if field is None:
            field = _field_without_key(draft, words)
        # A hint on the syntax of a schedules file does not help here.
        if problem.hint and not (field == "job" and "[" in problem.hint):
            words += f" ({problem.hint})"
        problems.setdefault(field, words)
    return problems


def _field_without_key(draft: Draft, words: str) -> str:
    try:
        check_name(draft.name, what="schedule name")
    except InvalidInput as error:
        if error.message == words:
            return "name"
    if words == NO_TIME:
        return "when"
    # Also for a command that can't be read: its problem is shown there already.
    return "job" if words == NO_COMMAND or not draft.texts["job"].strip() else ""


def _check_in_database(client: Client, step: Step) -> dict[str, str]:
    """Return the conflicts of a schedule with the others in the database."""
    try:
        client.check(step)
    except (AlreadyExists, Conflict) as error:
        return {"name": _words(error)}
    except InvalidTrigger as error:
        return {"when": _words(error)}
    except InvalidInput as error:
        return {"needs" if "need" in error.message else "": _words(error)}
    return {}


def _words(error: EdgecronError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message


def _read_times(client: Client, draft: Draft, table: Table, *, now: datetime) -> Times:
    """Describe the lines of `when`, and compute the times they and the bounds give."""
    lines = lines_of(draft.texts["when"])
    try:
        timezone = check_zone(draft.texts["timezone"].strip() or "local")
    except InvalidInput:
        return Times()  # Shown at the field of the zone.
    shown: list[TimeLine] = []
    read: list[Trigger] = []
    for line in lines:
        try:
            trigger = _read_line(line, draft, timezone=timezone, now=now)
        except InvalidInput as error:
            shown.append(TimeLine(line, _words(error), is_wrong=True))
        else:
            read.append(trigger)
            shown.append(TimeLine(line, describe(trigger)))
    times = Times(lines=tuple(shown), triggers=tuple(read), timezone=timezone)
    found = _foresee(client, draft, table, read, timezone=timezone)
    if found is None:
        return times
    texts = iter(read)
    return replace(
        times,
        lines=tuple(
            line
            if line.is_wrong
            # As the database would store them: H depends on its seed.
            else line._replace(words=found.words.get(next(texts).text, line.words))
            for line in shown
        ),
        fires=tuple(found.fires),
        notes=found.changes,
        jitter_warning=found.jitter_warning,
        window_warning=found.window_warning,
    )


def _read_line(line: str, draft: Draft, *, timezone: str | None, now: datetime) -> Trigger:
    key, text = split_time(line)
    if key in SWITCHED:
        return parse_trigger(line, timezone, draft.name or _STAND_IN)
    return values.read_trigger(
        key,
        text,
        what=key,
        name=draft.name or _STAND_IN,
        timezone=timezone,
        now=None if line in draft.known else now,
        is_fast_ok=line in draft.known,
    )


def _foresee(
    client: Client,
    draft: Draft,
    table: Table,
    triggers: list[Trigger],
    *,
    timezone: str | None,
) -> Foreseen | None:
    """Forecast these triggers only; None if they contradict each other."""
    if not triggers:
        return None
    stand_in: Table = {key: table[key] for key in _BOUNDS if key in table}
    stand_in |= {"on_boot": True, "command": ["true"]}
    bound, _ = read_table(_STAND_IN, stand_in, now=client.now())
    texts = tuple(trigger.text for trigger in triggers)
    spec = ScheduleSpec(
        name=_name_of(draft),
        triggers=texts,
        job=Job(kind=JobKind.COMMAND, argv=("true",)),
        timezone=timezone,
    )
    if bound is not None:
        spec = replace(bound.spec, name=spec.name, triggers=texts, timezone=timezone)
    try:
        return client.foresee(spec, schedule=draft.opened, upcoming=UPCOMING)
    except InvalidInput:
        return None  # Shown at its field.


def _name_of(draft: Draft) -> str:
    try:
        check_name(draft.name, what="schedule name")
    except InvalidInput:
        return _STAND_IN if draft.opened is None else draft.opened.name
    return draft.name


def _cautions(job: Job | None, times: Times, *, is_here: bool) -> dict[str, str]:
    """Return cautions: values that are allowed but may be a mistake."""
    cautions: dict[str, str] = {}
    warnings = [warning for trigger in times.triggers for warning in trigger.warnings]
    if warnings:
        cautions["when"] = warnings[0]
    if times.jitter_warning is not None:
        cautions["jitter"] = times.jitter_warning
    if times.window_warning is not None:
        is_of_trigger = any(isinstance(one, OnceInTrigger) for one in times.triggers)
        cautions["when" if is_of_trigger else "between"] = times.window_warning
    if job is None:
        return cautions
    secrets = [name for name, value in job.env.items() if values.is_secret(name, value)]
    if secrets:
        cautions["env"] = secret_words(secrets[0])
    if not is_here:
        return cautions  # The files of another machine are unknown here.
    missing = find_missing_command(job) if job.kind is JobKind.COMMAND else None
    if missing is not None:
        cautions["job"] = missing
    folder = find_missing_folder(job)
    if folder is not None:
        cautions["cwd"] = folder
    return cautions
