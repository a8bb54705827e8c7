"""Import a crontab.

    crontab -l | edgecron import crontab -
    edgecron import crontab my.crontab --comment-out
    sudo edgecron import crontab /etc/cron.d/photos
    sudo edgecron import anacrontab /etc/anacrontab

edgecron imports all lines or none. Files in /etc have a user column. For other files with a user
column use --system, and for files in /etc without one --user-format. New schedules get the policies
of `edgecron config show defaults`.

edgecron imports each line once. A second import shows what changed in the crontab and in edgecron,
and asks. --take crontab changes the schedules as the lines say, and --take edgecron keeps them.
Variables that you added with `edit --env` stay. A removed schedule stays removed unless you give
--again. If a line is no longer in the file, edgecron names its schedule; --prune removes it.

MAILTO becomes a rule for notices that mails what a run printed. The import shows the rule for the
configuration, unless it is there. MAILTO="" becomes `--notify off`. If a line has a MAILTO that its
schedule lacks, a second import shows it as a change.

cron still runs the lines until you comment them out. edgecron offers this, and --comment-out does
it without a question.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterable, Mapping
from pathlib import Path
from shlex import quote
from typing import NoReturn

from edgecron.base.errors import InvalidCrontab, InvalidInput, UsageError
from edgecron.base.files import STDIN, read_file, write_whole
from edgecron.base.paths import is_user, user_name
from edgecron.base.values import NamedTuple, replace
from edgecron.cli.apply import need_consent
from edgecron.cli.parser import Parser
from edgecron.cli.plans import put_changes, say_undo
from edgecron.cli.session import Session
from edgecron.formats.config import default_policies, option_defaults
from edgecron.formats.crontab import read_crontab
from edgecron.formats.crontab_identity import (
    Match,
    comment_out,
    find_gone,
    find_new,
    imprint_of,
    match_entries,
    put_back,
    take_line,
)
from edgecron.formats.crontab_lines import (
    Crontab,
    Entry,
    find_spool_owner,
    is_system_path,
    mail_rule_text,
)
from edgecron.formats.document_tables import Action, Step, Wanted, compare_one
from edgecron.model.listing import standing_of
from edgecron.model.options import Policies
from edgecron.model.schedule import Imported, Schedule, ScheduleSpec
from edgecron.views.json_objects import schedule_object
from edgecron.views.phrases import count_words, job_words, named_words, next_words, trigger_words

_FORMATS = ("crontab", "anacrontab")
_SIDES = ("crontab", "edgecron")


def add_arguments(parser: Parser) -> None:
    parser.add("crontab|anacrontab", "the format of FILE", dest="format")
    parser.add("[FILE|-]", "the file; - is stdin", dest="file")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--system", action="store_true", help="read a user column in each line")
    which.add_argument("--user-format", action="store_true", help="read no user column")
    parser.add(
        "--take crontab|edgecron", "choose which side wins if a line has changed since its import"
    )
    parser.add("--again", "also import lines whose schedules were removed")
    parser.add("--prune", "remove schedules whose lines are no longer in FILE")
    parser.add("--comment-out", "comment out the imported lines in FILE")


def run(cli: Session, args: Namespace) -> int:
    if args.file is None and args.format not in _FORMATS:
        words = cli.command(f"import crontab {quote(args.format)}")
        raise UsageError(
            "the format is missing, expected crontab FILE or anacrontab FILE", hint=words
        )
    if args.format not in _FORMATS:
        raise UsageError(
            f"{args.format!r} is an unknown format, expected crontab or anacrontab",
            hint="move timers with: edgecron scan, then edgecron adopt NAME"
            if args.format in ("systemd", "timer", "timers")
            else cli.command(f"import crontab {quote(args.file)}"),
        )
    if args.file is None:
        if args.format == "crontab":
            hint = f"import your own: crontab -l | {cli.command('import crontab -')}"
        else:
            hint = cli.command("import anacrontab /etc/anacrontab")
        raise UsageError(f"the {args.format} is missing, expected FILE, or - for stdin", hint=hint)
    if args.take not in (None, *_SIDES):
        raise UsageError(
            f"--take is {args.take!r}, expected crontab or edgecron",
            hint="for example: --take crontab",
        )
    if args.comment_out:
        refuse_comment_out(args.file)
    content = read_crontab_file(args.file)
    crontab = parse_crontab(args, content)
    if crontab.problems:
        _refuse(cli, crontab)
    for warning in crontab.warnings:
        cli.warn(str(warning))
    done = _import(cli, args, content, crontab)
    if cli.is_json:
        cli.put_json(schedule_object(schedule) for schedule in (*done.added, *done.changed))
    else:
        _put(cli, done)
    entries = tuple(one for one in crontab.entries if one.line not in done.left_out)
    if entries:
        part_from_cron(cli, args, content, entries)
    show_mail_rules(cli, crontab.mail_rules)
    if done.added:
        cli.warn_without_engine(cli.client(), *done.added)
    return 0


def show_mail_rules(cli: Session, rules: Mapping[str, tuple[str, ...]]) -> None:
    """Show the rules of each MAILTO that the configuration lacks."""
    known = cli.config().notify_rules()
    lacking = {rule: to for rule, to in rules.items() if rule not in known}
    if not lacking:
        return
    cli.warn(
        "cron mails output to MAILTO; edgecron does so with this rule in the configuration"
        f" (see: {cli.command('config path')})"
    )
    for rule, addresses in lacking.items():
        cli.say(mail_rule_text(rule, addresses))


def _refuse(cli: Session, crontab: Crontab) -> NoReturn:
    """Print all problems, line by line, and raise InvalidCrontab."""
    count = len(crontab.problems)
    if not cli.is_json:
        for warning in crontab.warnings:
            cli.warn(str(warning))
        for problem in crontab.problems:
            hint = f" ({problem.hint})" if problem.hint else ""
            cli.report(f"line {problem.line}: {problem.message}{hint}: {_shown(problem.raw)}")
    raise InvalidCrontab(
        f"nothing was imported: {'a line' if count == 1 else f'{count} lines'} can't be imported",
        hint="correct each problem, or comment out its line with #; then import again",
        problems=[
            {
                "line": problem.line,
                "text": problem.raw,
                "message": problem.message,
                "hint": problem.hint,
            }
            for problem in crontab.problems
        ],
    )


def _shown(line: str) -> str:
    """Return a line as a person knows it, with tabs as spaces."""
    return line[:120].strip().replace("\t", " ")


class _Done(NamedTuple):
    """The result of an import: schedules and lines by what happened to them."""

    added: list[Schedule]
    changed: list[Schedule]
    removed: list[Schedule]
    known: list[str]
    left_out: list[int]


def _import(cli: Session, args: Namespace, content: bytes, crontab: Crontab) -> _Done:
    client, source = cli.client(), crontab_source(args.file)
    schedules = {schedule.id: schedule for schedule in client.schedules()}
    specs = {schedule_id: schedule.spec for schedule_id, schedule in schedules.items()}
    imported = client.imported()
    matches, rest = match_entries(crontab.entries, imported, specs, source=source)
    removed = [match for match in matches if match.is_removed]
    if args.again:
        rest += [match.entry for match in removed]
        removed = []
    there = [match for match in matches if not match.is_removed]
    wanted = _choose_changes(cli, args, there, schedules)
    matched = {match.schedule_id for match in there}
    policies = default_policies(option_defaults(cli.config()))
    comparison = find_new(
        rest,
        [spec for schedule_id, spec in specs.items() if schedule_id not in matched],
        taken=[specs[schedule_id].name for schedule_id in matched],
    )
    names = {schedule.name: schedule.id for schedule in schedules.values()}
    gone = find_gone(
        _moved_entries(args, content),
        imported,
        specs,
        source=source,
        found=matched | {names[entry.spec.name] for entry in comparison.known},
    )
    steps = [_change_step(match, schedules[match.schedule_id]) for match in wanted]
    pruned = [
        Step(action=Action.REMOVE, name=schedules[one].name, schedule=schedules[one])
        for one in (gone if args.prune else ())
    ]
    if pruned and not crontab.entries:
        need_consent(cli, pruned)
    changed = client.apply([*steps, *pruned], origin="crontab") if steps or pruned else []
    added = []
    if comparison.new:
        new = [with_default_policies(entry.spec, policies) for entry in comparison.new]
        added = client.add_all(new, origin="crontab")
    ids = names | {schedule.name: schedule.id for schedule in added}
    notes = [(match.schedule_id, match.entry) for match in there]
    notes += [(ids[entry.spec.name], entry) for entry in (*comparison.known, *comparison.new)]
    client.note_imported(
        [
            Imported(schedule_id=schedule_id, source=source, imprint=imprint_of(entry.spec))
            for schedule_id, entry in notes
        ]
    )
    _say_left(cli, there, removed, schedules)
    _warn_of_same_commands(cli, added, schedules.values())
    if gone and not args.prune:
        _say_gone(cli, args, [schedules[one].name for one in gone])
    known = [specs[match.schedule_id].name for match in there if match not in wanted]
    return _Done(
        added=added,
        changed=changed,
        removed=[schedules[one] for one in gone] if args.prune else [],
        known=known + [entry.spec.name for entry in comparison.known],
        left_out=[match.entry.line for match in removed],
    )


def _choose_changes(
    cli: Session, args: Namespace, matches: list[Match], schedules: dict[int, Schedule]
) -> list[Match]:
    """Show lines that changed since their import; return those to take over.

    Raises UsageError if neither an option nor a person says which side wins.
    """
    changed = [one for one in matches if one.changed_in_crontab and not one.is_same_now]
    is_asked = args.take is None and cli.can_ask()
    wanted = []
    for match in changed:
        schedule = schedules[match.schedule_id]
        if not cli.is_json:
            sides = f"in the crontab: {', '.join(match.changed_in_crontab)}"
            if match.changed_in_edgecron:
                sides += f"; in edgecron: {', '.join(match.changed_in_edgecron)}"
            cli.put(f"line {match.entry.line}, {schedule.name}, has changed since its import")
            cli.put(f"    {sides}")
            put_changes(cli, _change_step(match, schedule).changes)
        if args.take == "crontab" or (is_asked and cli.ask("change the schedule as shown?")):
            wanted.append(match)
    if changed and args.take is None and not is_asked:
        count = len(changed)
        lines = "a line has" if count == 1 else f"{count} lines have"
        raise UsageError(
            f"nothing was imported: {lines} changed since the import",
            hint="--take crontab changes the schedules, --take edgecron leaves them",
        )
    return wanted


def _change_step(match: Match, schedule: Schedule) -> Step:
    return compare_one(Wanted(spec=take_line(schedule.spec, match)), schedule)


def _moved_entries(args: Namespace, content: bytes) -> list[Entry]:
    """Return the original of the lines that an earlier import commented out."""
    before, numbers = put_back(content)
    return (
        [one for one in parse_crontab(args, before).entries if one.line in numbers]
        if numbers
        else []
    )


def _warn_of_same_commands(
    cli: Session, added: Iterable[Schedule], before: Iterable[Schedule]
) -> None:
    """Warn once for each command that both new and earlier schedules run."""
    names: dict[tuple[object, ...], tuple[list[str], list[str]]] = {}
    for place, schedules in enumerate((added, before)):
        for one in schedules:
            job = one.spec.job
            names.setdefault((job.argv, job.stdin), ([], []))[place].append(one.name)
    for new, old in names.values():
        if new and old:
            run, was = "runs" if len(new) == 1 else "run", "was" if len(old) == 1 else "were"
            rm = cli.command(f"rm {old[0] if len(old) == 1 else 'NAME'}")
            cli.warn(
                f"{named_words(new)} {run} the same command as {named_words(old)}, which {was}"
                f" there before; if the crontab line has changed: {rm}"
            )


def _say_gone(cli: Session, args: Namespace, names: list[str]) -> None:
    """Report schedules whose lines are no longer in the file, and how to remove them."""
    file = "the crontab" if args.file == STDIN else args.file
    them = "it" if len(names) == 1 else "them"
    rm = cli.command(f"rm {' '.join(names)}")
    cli.say(f"no longer in {file}: {', '.join(names)}; remove {them} with --prune, or {rm}")


def _say_left(
    cli: Session, matches: list[Match], removed: list[Match], schedules: dict[int, Schedule]
) -> None:
    """Say which schedules a person changed or removed since the import."""
    edited = [
        f"{schedules[one.schedule_id].name} ({', '.join(one.changed_in_edgecron)})"
        for one in matches
        if one.changed_in_edgecron and not one.changed_in_crontab
    ]
    if edited:
        cli.say(f"changed in edgecron since the import, not replaced: {', '.join(edited)}")
    if removed:
        names = ", ".join(f"{one.entry.spec.name} (line {one.entry.line})" for one in removed)
        cli.say(
            f"skipped, because you removed them since the import: {names}; to import them: --again"
        )


def with_default_policies(spec: ScheduleSpec, policies: Policies) -> ScheduleSpec:
    """Return a line's schedule with the default policies, except what the crontab sets.

    A crontab always sets zone, folder and variables: by default, those of cron.
    """
    if spec.policies.jitter_s:
        policies = replace(policies, jitter_s=spec.policies.jitter_s)
    if spec.policies.notify:
        policies = replace(policies, notify=spec.policies.notify)
    return replace(spec, policies=policies)


def _put(cli: Session, done: _Done) -> None:
    added, known = done.added, done.known
    now, zone = cli.client().now(), cli.zone()
    is_trusted = cli.client().is_clock_trusted()
    if added:
        rows = [
            (
                schedule.name,
                trigger_words(standing_of(schedule), zone=zone),
                next_words(standing_of(schedule), zone=zone, now=now, is_clock_trusted=is_trusted),
                job_words(schedule.spec),
            )
            for schedule in added
        ]
        cli.put_table(
            ("name", "triggers", "next_run_at", "job"),
            rows,
            styles=[("bold", "dim", None, "dim")] * len(rows),
            flexible=(3, 1, 0),
        )
    if known:
        cli.say(f"already imported: {', '.join(known)}")
    if done.changed:
        cli.say(f"changed {count_words(len(done.changed), 'schedule')}")
    for schedule in done.removed:
        undo = cli.command(f"undo {schedule.name}")
        cli.put(f"removed {schedule.name}; its history stays; restore it: {undo}")
    if added:
        cli.say(f"imported {count_words(len(added), 'schedule')}")
    say_undo(cli, [one.name for one in (*added, *done.changed)])
    if not (added or done.changed or done.removed):
        cli.say(
            "nothing new to import"
            if known or done.left_out
            else "nothing to import: the crontab has no jobs"
        )


_MOST_BYTES = 16 * 1024 * 1024  # of a crontab


def read_crontab_file(file: str) -> bytes:
    """Return the content of a file, or of stdin. Raises InvalidInput if it is too large."""
    content = read_file(file, most_bytes=_MOST_BYTES)
    if len(content) > _MOST_BYTES:
        raise InvalidInput(f"file {file!r} is larger than 16 MiB, expected a crontab")
    return content


def parse_crontab(args: Namespace, content: bytes) -> Crontab:
    """Read a crontab or an anacrontab; options and the path decide whether it has user columns."""
    is_anacron = args.format == "anacrontab" or os.path.basename(args.file) == "anacrontab"
    owner = None if args.file == STDIN else find_spool_owner(args.file)
    if is_anacron:
        # No line names a user: the lines of the system's file run as root.
        owner = "root" if is_system_path(args.file) else None
    system = None
    if args.user_format or owner is not None:
        system = args.system
    elif args.system or (is_system_path(args.file) and not is_anacron):
        system = True
    return read_crontab(
        content,
        system=system,
        importer=user_name(),
        is_root=os.geteuid() == 0,
        user_exists=is_user,
        owner=owner,
        is_anacron=is_anacron,
    )


def crontab_source(file: str) -> str:
    """Return whose crontab it is, or which file.

    It is the same for a spooled crontab and for `crontab -l`.
    """
    owner = user_name() if file == STDIN else find_spool_owner(file)
    return os.path.realpath(file) if owner is None else f"crontab of {owner}"


def _is_read_by_cron(file: str) -> bool:
    """Whether cron or anacron reads this file itself: a spooled crontab, or one in /etc."""
    return find_spool_owner(file) is not None or os.path.realpath(file).startswith(
        f"{os.path.realpath('/etc')}/"
    )


def refuse_comment_out(file: str) -> None:
    """Raise UsageError if edgecron can't change a file in place."""
    why_not = _why_not_writable(file)
    if why_not is not None:
        raise UsageError(f"--comment-out can't change {file!r}", hint=why_not)


def _why_not_writable(file: str) -> str | None:
    """Say what to do instead if a file can't be changed in place; None if it can."""
    if file == STDIN:
        return "crontab -e"
    owner = find_spool_owner(file)
    if owner is not None:
        # cron does not notice that another program changes a spool file.
        return "crontab -e" if owner == user_name() else f"crontab -u {owner} -e"
    folder = os.path.dirname(os.path.realpath(file))
    if os.path.exists(file) and not (os.access(file, os.W_OK) and os.access(folder, os.W_OK)):
        return "repeat as the owner of the file with --comment-out"
    return None


def _comment_out_lines(file: str, content: bytes, lines: list[int]) -> None:
    """Replace the file atomically, with its mode and owner, if it has not changed since."""
    path = os.path.realpath(file)
    with open(path, "rb") as crontab:
        if crontab.read(_MOST_BYTES + 1) != content:
            raise InvalidInput(f"file {file!r} changed during the import and was not written")
        seen = os.fstat(crontab.fileno())
    # cron ignores file names with a dot, so it never runs the temporary file.
    write_whole(Path(path), [comment_out(content, lines)], owner=seen.st_uid)


def part_from_cron(
    cli: Session, args: Namespace, content: bytes, entries: tuple[Entry, ...]
) -> None:
    """Say that cron still runs the lines, and comment them out if wanted."""
    lines = [entry.line for entry in entries]
    shown = count_words(len(lines), "line")
    which, them = ("this line", "it") if len(lines) == 1 else (f"these {shown}", "them")
    cron, own = ("cron", "crontab -e")
    if args.format == "anacrontab":
        cron, own = ("anacron", "/etc/anacrontab")
    # We can't know whether cron's own table has the lines of another file.
    is_read = args.file == STDIN or _is_read_by_cron(args.file)
    effect = f": {cron} no longer runs {them}"
    if not is_read:
        effect = f"; if {own} shows {them}, comment {them} out there, too"
    done = f"commented out {shown} of {args.file}{effect}"
    if args.comment_out:
        _comment_out_lines(args.file, content, lines)
        cli.say(done)
        return
    cli.say(f"{cron} still runs {which}, too" + ("" if is_read else f", if {own} shows {them}"))
    why_not = _why_not_writable(args.file)
    if why_not is not None:
        cli.say(f"to comment {them} out: {why_not}")
    elif cli.can_ask():
        if cli.ask(f"comment {shown} of {args.file} out?"):
            _comment_out_lines(args.file, content, lines)
            cli.say(done)
    else:
        cli.say(f"to comment {them} out: repeat with --comment-out")
