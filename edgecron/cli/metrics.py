"""Print metrics for Prometheus.

    edgecron metrics
    edgecron metrics --output /var/lib/node_exporter/edgecron.prom
    edgecron metrics --per-schedule
    edgecron add scrape --every 1m -- edgecron metrics -o DIR/edgecron.prom

--output replaces a file atomically and makes it readable for everyone. node_exporter's textfile
collector can read it (--collector.textfile.directory). Write it every minute, by a schedule, by
cron or by a systemd timer; the last two also work if no engine is running. A job does not see
EDGECRON_DB, so name another database with --db. `edgecron daemon --http` serves the same metrics as
/metrics.

Good alerts: a scheduler_last_success_timestamp that is long ago, an increase of
scheduler_runs_total with status failed, and scheduler_engines_alive equal to 0.

--per-schedule gives the two histograms (durations and delays) a label schedule_id, which adds about
30 lines per schedule, without removed schedules. It also adds scheduler_claim_lock_failures_total:
how often a claim of the schedule found the database locked. A server gives the same for
/metrics?per_schedule=1.

This command needs an extra: pip install 'edgecron[metrics]'. --json prints an array of samples.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from edgecron.base.clock import ServerTime, SystemClock
from edgecron.base.errors import NotSupported, UsageError
from edgecron.cli.files import write_file
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session
from edgecron.client.metrics import OPENMETRICS, exposition_parts, find_families, read_families
from edgecron.client.plain_forms import read_error

_PER_SCHEDULE = b"# TYPE scheduler_claim_lock_failures"  # only in answers by schedule
_FILE_MODE = (
    0o644  # A collector is another user: it is to read this file, and nothing else of ours.
)


def add_arguments(parser: Parser) -> None:
    parser.add("-o --output FILE", "write to FILE, atomically, instead of to stdout")
    parser.add("--per-schedule", "add a label schedule_id to histograms")


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
    from edgecron.cli.server import connector_to

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
