"""Remove old runs and output.

    edgecron prune --dry-run                         what would go, and why
    edgecron prune
    edgecron prune --history-age 30d --output-age 7d
    edgecron prune noisy --history-count 1000        only this schedule
    edgecron prune --forget nightly                  its former definitions

prune removes output first, by age and then by size. Then it removes runs by age, by their number
per schedule, and by the size of the database. Former definitions that no run refers to go last, and
notices that were sent: after 90 days, or beyond 5,000 of one rule. The oldest always go first.
Limits that you do not give come from `edgecron config show retention`; `none` is no limit.

prune never removes active runs, or the last run and the last success of a schedule. A schedule
keeps its counts and last times. Engines continue meanwhile.

Ages count by this machine's clock. If the clock is not trusted, an engine can remove runs later
than prune does: see `doctor --trust-clock`.

The file does not shrink, because edgecron uses free space again. --compact rewrites the file
without free space. This needs twice the size of the content for a while, in the temporary folder
and beside the database, and no engine may run.

--forget NAME removes the former definitions of a schedule with their variables, payloads and stdin,
and overwrites them in the file. The current definition stays. If the schedule was removed, its last
definition goes too, and the schedule can't be restored. To remove the output and payloads of its
runs, use `edgecron prune NAME --output-age 1s --history-age 1s`. Backups keep their content.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable

from edgecron.base.errors import UsageError
from edgecron.cli.output import tell
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session
from edgecron.formats.config import retention_values
from edgecron.model.options import NONE
from edgecron.planning.retention import (
    NOTICE_AGE_S,
    NOTICE_COUNT,
    Kind,
    Pruned,
    Reason,
    Removed,
    Retention,
    output_limit,
)
from edgecron.views.phrases import size_words
from edgecron.views.times import seconds_words

LIVES_LONG = True
USAGE = "[--forget] [NAME] [--dry-run] [limits] [--compact]"
_LIMITS = {
    "output_age": ("DURATION|none", "keep output for this long"),
    "output_bytes": ("SIZE|none", "keep at most this much output in all, as stored"),
    "history_age": ("DURATION|none", "keep runs for this long"),
    "history_count": ("N|none", "keep at most N runs of each schedule"),
    "database_bytes": ("SIZE|none", "limit the size of the database"),
}
_MANY = 5_000  # removed rows between two reports of progress


def add_arguments(parser: Parser) -> None:
    parser.add("[NAME]", "prune only this schedule (default: all)")
    parser.add("--forget", "remove the former definitions of NAME for good")
    parser.add("--dry-run", "show what prune would remove; change nothing")
    for name, (metavar, words) in _LIMITS.items():
        parser.add(f"--{name.replace('_', '-')} {metavar}", words)
    parser.add("--compact", "then rewrite the file without free space")


def run(cli: Session, args: Namespace) -> int:
    if args.name is not None and args.database_bytes is not None:
        raise UsageError(
            "--database-bytes limits all schedules together, not one",
            hint="remove NAME or --database-bytes",
        )
    if args.dry_run and args.compact:
        raise UsageError(
            "--compact changes the file, and --dry-run changes nothing", hint="give one of them"
        )
    if args.forget:
        return _forget(cli, args)
    client = cli.local_client(must_exist=True)
    retention = _retention(cli, args)
    pruned = client.prune(
        args.name, retention=retention, dry_run=args.dry_run, on_progress=_show_progress(cli)
    )
    if args.compact:
        client.compact()
    _put(cli, pruned, retention, args)
    return 0


def _forget(cli: Session, args: Namespace) -> int:
    given = [name for name in _LIMITS if getattr(args, name) is not None]
    if given:
        raise UsageError(
            f"--forget does not work with --{given[0].replace('_', '-')}",
            hint="give one of them",
        )
    if args.name is None:
        raise UsageError(
            "--forget needs the name of a schedule", hint="edgecron prune --forget NAME"
        )
    client = cli.local_client(must_exist=True)
    found = client.forget(args.name, dry_run=args.dry_run)
    if args.compact:
        client.compact()
    if cli.is_json:
        cli.put_json(
            [{"schedule": args.name, "removed": found.removed, "kept": found.kept}],
        )
    else:
        done = "would remove" if args.dry_run else "removed"
        plural = "" if found.removed == 1 else "s"
        what = f"{found.removed:,} former definition{plural} of {args.name}"
        cli.put(f"{done} {what}" if found.removed else f"{args.name} has no former definitions")
    if found.kept:
        cli.warn(
            f"active runs of {args.name} still need {found.kept} of its former definitions; repeat"
            f" this when they have ended: {cli.command(f'prune --forget {args.name}')}"
        )
    if not found.is_log_empty:
        cli.warn(
            "the removed data is still in the database's log, which another process reads;"
            f" repeat this later: {cli.command(f'prune --forget {args.name}')}"
        )
    return 0


def _retention(cli: Session, args: Namespace) -> Retention:
    """Return the configured retention, changed by the options."""
    given = {name: getattr(args, name) for name in _LIMITS}
    # Limits on all schedules together don't apply to one.
    if args.name is not None:
        given["database_bytes"] = NONE
        given["output_bytes"] = args.output_bytes or NONE
    return Retention(**retention_values(cli.config(), given))


def _show_progress(cli: Session) -> Callable[[Removed], None]:
    """Return a function that shows a person how many rows are removed, if they are many."""
    count = shown = 0

    def show(removed: Removed) -> None:
        nonlocal count, shown
        count += removed.count
        if cli.is_advised() and count >= shown + _MANY:
            shown = count
            tell(f"{count:,} so far")

    return show


def _put(cli: Session, pruned: Pruned, retention: Retention, args: Namespace) -> None:
    if not pruned.has_ages and (retention.output_age_s or retention.history_age_s):
        cli.warn(
            "this machine's clock can't be trusted, so nothing was judged by its age;"
            f" see: {cli.command('doctor')}"
        )
    if cli.is_json:
        cli.put_json(
            {
                "kind": one.kind.value,
                "reason": one.reason.value,
                "count": one.count,
                "bytes": one.size_bytes,
            }
            for one in pruned.removed
        )
        return
    if not pruned.removed:
        cli.put("nothing to remove")
    else:
        rows = _rows(pruned, retention, is_of_one=args.name is not None)
        cli.put_table(("kind", "count", "bytes", "reason"), rows)
    if args.dry_run:
        cli.put("nothing was removed")
        return
    after = cli.local_client().store.find_size() if args.compact else pruned.after
    used_bytes, free_bytes = after
    text = f"the database holds {size_words(used_bytes)}"
    if pruned.removed:
        text += f", before {size_words(pruned.before.used_bytes)}"
    if free_bytes >= used_bytes // 10:
        text += f"; {size_words(free_bytes)} are free and will be filled first"
    cli.put(text)


def _rows(pruned: Pruned, retention: Retention, *, is_of_one: bool) -> list[tuple[str, ...]]:
    nouns = {
        Kind.OUTPUT: "output of runs",
        Kind.RUN: "runs",
        Kind.SCHEDULE: "removed schedules",
        Kind.REVISION: "former definitions",
        Kind.NOTICE: "notices",
    }
    return [
        (
            nouns[one.kind],
            f"{one.count:,}",
            f"about {size_words(one.size_bytes)}" if one.size_bytes else "",
            _why(one, retention, is_of_one=is_of_one),
        )
        for one in pruned.removed
    ]


def _why(removed: Removed, retention: Retention, *, is_of_one: bool) -> str:
    is_output = removed.kind is Kind.OUTPUT
    if removed.kind is Kind.NOTICE:
        is_old = removed.reason is Reason.AGE
        age = f"older than {seconds_words(NOTICE_AGE_S)}"
        return age if is_old else f"more than {NOTICE_COUNT:,} of one rule"
    if removed.reason is Reason.AGE:
        age_s = retention.output_age_s if is_output else retention.history_age_s
        return f"older than {seconds_words(age_s or 0)}"
    if removed.reason is Reason.COUNT:
        return f"more than {retention.history_count:,} of one schedule"
    if removed.reason is Reason.UNUSED:
        return "no run refers to it" if removed.count == 1 else "no run refers to them"
    if is_output:
        size = size_words(output_limit(retention) or 0)
        return f"output of {'it' if is_of_one else 'all runs'} over {size}"
    return f"database over {size_words(retention.database_bytes or 0)}"
