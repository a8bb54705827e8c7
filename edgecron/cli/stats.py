"""What is counted: statistics of runs, and metrics for Prometheus."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

from edgecron.base.clock import ServerTime, SystemClock
from edgecron.base.errors import NotSupported, UsageError
from edgecron.base.files import write_file
from edgecron.base.value_texts import read_past
from edgecron.base.values import replace
from edgecron.cli.list_ import add_page_arguments, read_limit, say_more
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session, connector_to
from edgecron.client.metrics import (
    OPENMETRICS,
    exposition_parts,
    find_counted,
    find_families,
    read_families,
    stats_objects,
)
from edgecron.client.plain_forms import read_error
from edgecron.model.choices import Status
from edgecron.views.phrases import count_words, size_words
from edgecron.views.statistics import plot
from edgecron.views.times import local_time, short_duration

if TYPE_CHECKING:
    from edgecron.client.protocol import Client
    from edgecron.model.schedule import Schedule
    from edgecron.views.statistics import Spread, Tallied, Tally, Trend

_SINCE = "7d"
_PER_SCHEDULE = b"# TYPE scheduler_claim_lock_failures"  # only in answers by schedule
_FILE_MODE = (
    0o644  # A collector is another user: it is to read this file, and nothing else of ours.
)


class StatsCommand:
    """Show counts, durations and delays of runs.

        edgecron stats
        edgecron stats nightly --since 30d
        edgecron stats --since 2026-11-01 --json
        edgecron stats --trend       compare with the month before
        edgecron stats -n all        every schedule, and all of them together

    edgecron counts runs that ended or were skipped in the last seven days, or since --since. It
    reads at most the newest 100,000 runs. SUCCESS RATE is the share of successes among the runs
    that succeeded, failed or were interrupted. LATE is the time from due to started, without runs
    that were caught up or backfilled. A series of skipped times is one row and counts in full, even
    if it began before --since.

    --trend compares success rate and median duration with the 30 days before --since. A trend has
    12 steps from then until now, the oldest first; a terminal without UTF-8 shows 1 to 8. If runs
    of that month were removed, edgecron compares nothing and leaves their steps empty.

    A terminal shows the first 50 schedules by name; a pipe and --json get all of them, unless you
    give -n. The line "(all)" appears only if all schedules are shown. With --json, it is the last
    object, and its schedule is null.

    A removed schedule counts under its name until another schedule takes the name. Then its runs
    count only in the line "(all)"; `edgecron history NAME` still shows them.
    """

    @staticmethod
    def add_arguments(parser: Parser) -> None:
        parser.add("[NAME]", "show only this schedule (default: all)")
        parser.add("--since DURATION|TIME", "count from this time on (default: 7d)", default=_SINCE)
        parser.add("--trend", "compare with the month before")
        add_page_arguments(parser)

    @staticmethod
    def run(cli: Session, args: Namespace) -> int:
        limit = None
        if args.name is None:
            limit = read_limit(cli, args.limit)
        elif args.limit is not None or args.after is not None:
            raise UsageError(
                f"-n and --after are for several schedules, and {args.name!r} is one",
                hint=cli.command(f"stats {args.name}"),
            )
        client = cli.reading_client()
        found = client.tallies(
            args.name,
            since=read_past(args.since, what="--since", now=client.now()),
            after=args.after,
            limit=None if limit is None else limit + 1,  # One more tells whether there are more.
            with_trends=args.trend,
        )
        names = list(found.by_name)
        if limit is not None and len(names) > limit:
            found = replace(found, by_name={name: found.by_name[name] for name in names[:limit]})
        is_all = len(found.by_name) == len(names) and args.after is None
        if cli.is_json:
            cli.put_json(stats_objects(client, found, args.name, has_total=is_all))
        elif args.name is not None:
            _put_one(cli, client, found, find_counted(client, found, args.name).get(args.name))
        else:
            if args.trend:
                _put_trends(cli, found)
            else:
                _put_table(cli, found, is_all=is_all)
            if len(found.by_name) < len(names):
                words = ["stats", "--since", args.since] if args.since != _SINCE else ["stats"]
                words += ["--trend"] * args.trend
                say_more(cli, words, after=names[len(found.by_name) - 1], limit=args.limit)
        if found.cut_at is not None and not cli.is_json:
            cut = local_time(found.cut_at, zone=cli.zone())
            cli.say(f"there are more runs: only the newest are counted, from {cut} on")
        return 0


def _put_table(cli: Session, found: Tallied, *, is_all: bool) -> None:
    if _is_empty(cli, found):
        return
    named = list(found.by_name.items())
    if len(named) > 1 and is_all:
        named.append(("(all)", found.total))
    rows, styles = [], []
    for name, tally in named:
        failed = tally.counts.get(Status.FAILED, 0) + tally.counts.get(Status.INTERRUPTED, 0)
        skipped_count = sum(tally.skipped.values())
        took, late = tally.duration_ms, tally.late_ms
        rows.append(
            (
                name,
                f"{tally.runs:,}",
                _rate(tally.success_rate),
                f"{failed:,}",
                f"{skipped_count:,}",
                *_cells(took),
                *_cells(late)[:2],
            )
        )
        styles.append(
            (
                "bold",
                None,
                None,
                "red" if failed else None,
                "yellow" if skipped_count else None,
                *(None,) * 5,
            )
        )
    # Words of the keys: whole keys, such as duration_median_ms, need more than 80 columns.
    words = (
        *("schedule", "runs", "success_rate", "failed", "skipped", "duration", "p95", "max"),
        *("late", "late_p95"),
    )
    cli.put_table(words, rows, styles=styles, flexible=(0, 9, 8, 7, 6))


def _is_empty(cli: Session, found: Tallied) -> bool:
    if not found.by_name:
        since = local_time(found.since, zone=cli.zone())
        cli.say(f"no run has ended since {since}; to count older runs: --since 30d")
    return not found.by_name


def _put_trends(cli: Session, found: Tallied) -> None:
    """Print each schedule's success rate and duration, those of the month before, and plots."""
    if _is_empty(cli, found):
        return
    rows, styles = [], []
    for name, tally in found.by_name.items():
        trend = found.trends.get(name)
        is_worse = (
            trend is not None
            and trend.success_rate_before is not None
            and (tally.success_rate or 0) < trend.success_rate_before
        )
        rows.append((name, *_trend_cells(tally, trend)))
        styles.append(("bold", "red" if is_worse else None, None, None, None, None, None))
    words = (
        *("schedule", "success_rate", "rate_before", "rate_trend"),
        *("duration", "duration_before", "duration_trend"),
    )
    cli.put_table(words, rows, styles=styles, flexible=(0,))


def _trend_cells(tally: Tally, trend: Trend | None) -> tuple[str, ...]:
    took = _cells(tally.duration_ms)[0]
    if trend is None:
        return _rate(tally.success_rate), "-", "", took, "-", ""
    before_ms = trend.duration_before_ms
    return (
        _rate(tally.success_rate),
        _rate(trend.success_rate_before),
        plot(trend.success_rates, most=1.0),
        took,
        short_duration(before_ms),
        plot(trend.durations_ms),
    )


def _put_one(cli: Session, client: Client, found: Tallied, schedule: Schedule | None) -> None:
    tally = found.total
    counts = [f"{count:,} {status}" for status, count in tally.counts.items()]
    skipped = [f"{count:,} {reason}" for reason, count in tally.skipped.items()]
    lines = [
        ("since", local_time(found.since, zone=cli.zone())),
        ("runs", ", ".join([f"{tally.runs:,}", *counts])),
        ("ok", _rate(tally.success_rate)),
        ("retries", f"{tally.retries:,}" if tally.retries else ""),
        ("skipped", ", ".join(skipped)),
        ("took", _spread_words(tally.duration_ms)),
        ("late", _spread_words(tally.late_ms)),
    ]
    if schedule is not None and (trend := found.trends.get(schedule.name)) is not None:
        rate, before, rates, took, took_before, durations = _trend_cells(tally, trend)
        lines.append(("ok trend", f"{rates}  {rate}, in the month before {before}"))
        lines.append(
            ("took trend", f"{durations}  median {took}, in the month before {took_before}")
        )
    if found.output_bytes is not None:
        sizes = found.output_bytes
        words = f"median {size_words(sizes.median)}, at most {size_words(sizes.most)}"
        newest = "run" if sizes.count == 1 else f"{sizes.count:,} runs"
        lines.append(("printed", f"{words}, of the newest {newest} that printed"))
    if schedule is not None:
        ever = ", ".join(
            f"{count:,} {status}" for status, count in schedule.counts.items() if count
        )
        lines.append(
            ("ever", ", ".join([count_words(schedule.run_count, "run"), ever]).rstrip(", "))
        )
    cli.put_pairs([line for line in lines if line[1]], width=12)
    if not tally.counts.get(Status.SUCCESS) and not tally.runs:
        cli.say("none of its runs has ended since then")


def _rate(rate: float | None) -> str:
    if rate is None:
        return "-"
    # Round down: one failure must not show as 100%.
    return f"{int(rate * 1000) / 10:g}%"


def _cells(spread: Spread | None) -> tuple[str, str, str]:
    if spread is None:
        return "-", "-", "-"
    return (
        short_duration(spread.median),
        short_duration(spread.p95),
        short_duration(spread.most),
    )


def _spread_words(spread: Spread | None) -> str:
    if spread is None:
        return ""
    median, p95, most = _cells(spread)
    return f"median {median}, 95 of 100 within {p95}, at most {most}"


class MetricsCommand:
    """Print metrics for Prometheus.

        edgecron metrics
        edgecron metrics --output /var/lib/node_exporter/edgecron.prom
        edgecron metrics --per-schedule
        edgecron add scrape --every 1m -- edgecron metrics -o DIR/edgecron.prom

    --output replaces a file atomically and makes it readable for everyone. node_exporter's textfile
    collector can read it (--collector.textfile.directory). Write it every minute, by a schedule, by
    cron or by a systemd timer; the last two also work if no engine is running. A job does not see
    EDGECRON_DB, so name another database with --db. `edgecron daemon --http` serves the same
    metrics as /metrics.

    Good alerts: a scheduler_last_success_timestamp that is long ago, an increase of
    scheduler_runs_total with status failed, and scheduler_engines_alive equal to 0.

    --per-schedule gives the two histograms (durations and delays) a label schedule_id, which adds
    about 30 lines per schedule, without removed schedules. It also adds
    scheduler_claim_lock_failures_total: how often a claim of the schedule found the database
    locked. A server gives the same for /metrics?per_schedule=1.

    This command needs the extra `metrics`: see `edgecron help install`. --json prints an array of
    samples.
    """

    @staticmethod
    def add_arguments(parser: Parser) -> None:
        parser.add("-o --output FILE", "write to FILE, atomically, instead of to stdout")
        parser.add("--per-schedule", "add a label schedule_id to histograms")

    @staticmethod
    def run(cli: Session, args: Namespace) -> int:
        if args.output is not None and cli.is_json:
            raise UsageError("--output and --json are both given, expected one of them")
        url = cli.remote_url()
        if cli.is_json:
            cli.put_json(_samples(cli, url, per_schedule=args.per_schedule))
            return 0
        if url is None:
            _, parts = exposition_parts(
                cli.local_client(must_exist=True), None, per_schedule=args.per_schedule
            )
        else:
            parts = iter([_fetched(cli, url, accept=None, per_schedule=args.per_schedule)])
        if args.output is None:
            for part in filter(None, parts):
                cli.put_data(part.decode().removesuffix("\n"))
        else:
            write_file(args.output, parts, mode=_FILE_MODE)
        return 0


def _fetched(cli: Session, url: str, *, accept: str | None, per_schedule: bool) -> bytes:
    """Fetch the metrics of a server.

    Raises ServerUnavailable, the error that the server answers, and NotSupported if the server
    does not know `per_schedule`.
    """
    connector = connector_to(cli.config(), url, warn=cli.caution)
    with closing(connector.open(ServerTime(SystemClock()))) as connection:
        found = connection.get(f"/metrics{'?per_schedule=1' * per_schedule}", accept=accept)
    # Metrics never begin so: this is an error object.
    error = read_error(json.loads(found)["error"]) if found.startswith(b"{") else None
    if error is not None:
        raise error
    if per_schedule and _PER_SCHEDULE not in found:
        raise NotSupported(
            f"the server at {url} has no metrics per schedule",
            hint="upgrade edgecron there, or remove --per-schedule",
        )
    return found


def _samples(cli: Session, url: str | None, *, per_schedule: bool) -> Iterator[dict[str, Any]]:
    """Yield every sample as an object, the same from here and from a server."""
    if url is None:
        found = find_families(cli.local_client(must_exist=True), per_schedule=per_schedule)
    else:
        # Only this format names the type of each family.
        found = read_families(
            lambda: _fetched(cli, url, accept=OPENMETRICS, per_schedule=per_schedule)
        )
    for family in found:
        for sample in family.samples:
            value = sample.value
            yield {
                "name": sample.name,
                "labels": sample.labels,
                "value": int(value) if value == int(value) else value,
                "type": family.type,
            }
