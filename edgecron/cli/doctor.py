"""Find problems and explain how to fix them.

    edgecron doctor
    edgecron doctor --json | jq -r '.[] | select(.status != "ok") | .message'
    edgecron doctor --deep
    edgecron doctor --repair
    edgecron doctor --take-over 4711
    edgecron doctor --trust-clock

Without options, doctor changes nothing. If a database is larger than 4 MiB or has more than 1,000
schedules, doctor reads only a part, and says what it did not read. --deep reads everything, and
compares each index with its table.

--repair removes rows whose schedule or run is missing, and creates groups that schedules name. No
command could reach those rows. Runs of a missing schedule stay.

--take-over kills a stalled engine, given its process number. Another engine then adopts its runs,
which continue meanwhile. If a program embeds the engine, the whole program ends. doctor asks first.

--trust-clock confirms a clock that engines do not trust, because it is far from the last known
time. This happens on a board without a battery, or if a machine was off for years. If the
machine gets its time from the network, wait for that instead.

Engines see a change made by SQL within seconds. To wake them immediately:

    for f in DATABASE.state/engine-*.fifo; do [ -p "$f" ] && printf . 1<>"$f"; done

Exit codes: 0 no problem, 1 a problem, 3 no database, 5 the database can't be used.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import DatabaseUnusable, NotFound, UsageError
from edgecron.base.units import format_instant
from edgecron.base.value_texts import read_count
from edgecron.cli.output import paint
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session
from edgecron.client.doctor import Checkup, check_all
from edgecron.client.doctor_machine import CheckStatus, Finding, problem
from edgecron.views.phrases import OK, PROBLEM, WARNING, count_words, glyph

if TYPE_CHECKING:
    from edgecron.client.engine_health import EngineState
    from edgecron.client.takeover import TakenOver

USAGE = "[--deep | --repair | --take-over PID [--yes] | --trust-clock]"
_MOST_PID = 2**31 - 1


def add_arguments(parser: Parser) -> None:
    parser.add("--deep", "check everything, each index against its table")
    parser.add("--repair", "remove rows whose schedule or run is missing")
    parser.add("--take-over PID", "kill this stalled engine")
    parser.add("--trust-clock", "confirm that the clock is right now")
    parser.add("-y --yes", "take over without asking")


def run(cli: Session, args: Namespace) -> int:
    if args.take_over is not None and args.trust_clock:
        raise UsageError("--take-over and --trust-clock exclude each other; give one of them")
    if args.deep and (args.take_over is not None or args.trust_clock):
        raise UsageError("--deep only checks; give it without --take-over and --trust-clock")
    if args.repair and (args.deep or args.trust_clock or args.yes or args.take_over is not None):
        raise UsageError("--repair excludes the other options of doctor; give only --repair")
    if args.repair:
        return _repair(cli)
    if args.take_over is not None:
        return _take_over(cli, _read_pid(cli, args.take_over), args)
    if args.yes:
        raise UsageError(
            "--yes only works with --take-over", hint="edgecron doctor --take-over PID --yes"
        )
    if args.trust_clock:
        return _trust_clock(cli)
    return _check(cli, is_deep=args.deep)


def _read_pid(cli: Session, text: str) -> int:
    hint = f"see the PID of each engine: {cli.command('status')}"
    return read_count(text, what="--take-over", most=_MOST_PID, hint=hint)


def _check(cli: Session, *, is_deep: bool) -> int:
    try:
        client = cli.local_client(must_exist=True)
    except (NotFound, DatabaseUnusable) as error:
        found = problem("database", error.message, hint=error.hint)
        checkup = Checkup(findings=(found,), error=error)
    else:
        checkup = check_all(
            client,
            command=cli.command,
            is_deep=is_deep,
            write_budget_bytes=cli.setting("limits.write_budget"),
        )
    if cli.is_json:
        cli.put_json(_finding_object(finding) for finding in checkup.findings)
    else:
        _put(cli, checkup.findings)
    if checkup.error is not None:
        return checkup.error.exit_code
    return int(any(finding.status is CheckStatus.PROBLEM for finding in checkup.findings))


def _finding_object(finding: Finding) -> dict[str, Any]:
    return {
        "check": finding.check,
        "status": finding.status.value,
        "message": finding.message,
        "hint": finding.hint,
    }


def _put(cli: Session, findings: tuple[Finding, ...]) -> None:
    is_colored = cli.use_color(sys.stdout)
    signs = {
        CheckStatus.OK: (OK, "green", "dim"),
        CheckStatus.WARNING: (WARNING, "yellow", "yellow"),
        CheckStatus.PROBLEM: (PROBLEM, "red", "red"),
    }
    width = max(len(finding.check) for finding in findings)
    before = None
    for finding in findings:
        sign, sign_style, style = signs[finding.status]
        name = "" if finding.check == before else finding.check
        before = finding.check
        cli.put(
            f"{paint(glyph(*sign), sign_style, is_on=is_colored)} "
            f"{paint(f'{name:<{width}}', 'dim', is_on=is_colored)}  "
            f"{paint(finding.message, style, is_on=is_colored)}"
        )
        for line in (finding.hint or "").splitlines():
            cli.put(f"{' ' * (width + 4)}{line}")
    counts = [
        count_words(count, word)
        for word, status in (("problem", CheckStatus.PROBLEM), ("warning", CheckStatus.WARNING))
        if (count := sum(finding.status is status for finding in findings))
    ]
    cli.put(", ".join(counts) or "nothing is wrong")


def _take_over(cli: Session, pid: int, args: Namespace) -> int:
    from edgecron.client.takeover import end_engine, get_stalled, running_of, take_over_runs

    client = cli.local_client(must_exist=True)
    state = get_stalled(client, pid)
    runs = running_of(client, state.info)
    if not args.yes:
        if not cli.can_ask():
            raise UsageError(
                f"ending engine pid {pid} can't be undone, and there is no terminal to ask on",
                hint="repeat with --yes",
            )
        if not _agrees(cli, state, count=len(runs)):
            cli.say("nothing was changed")
            return 1
    end_engine(client, state.info)
    if not cli.is_json:
        cli.put(f"ended process {pid}: the engine, and any program that embeds it")
    done = take_over_runs(client, state.info, runs=runs)
    if cli.is_json:
        cli.put_json([_taken_object(state, done)])
    else:
        _put_taken(cli, done)
    return 0


def _repair(cli: Session) -> int:
    """Repair rows whose schedule or run is missing, without losing history."""
    repaired = cli.local_client(must_exist=True).repair_orphans()
    if cli.is_json:
        cli.put_json(
            {"table": one.table, "parent": one.parent, "rows": one.row_count} for one in repaired
        )
        return 0
    for one in repaired:
        cli.put(f"{one.table}: repaired {count_words(one.row_count, 'row')} without {one.parent}")
    if not repaired:
        cli.put("nothing to repair")
    return 0


def _trust_clock(cli: Session) -> int:
    """Trust the clock's present time, and print what was trusted before."""
    was, now = cli.local_client(must_exist=True).trust_clock()
    if cli.is_json:
        was_text = None if was is None else format_instant(was)
        cli.put_json([{"trusted_from": format_instant(now), "was": was_text}])
        return 0
    before = (
        "before, no time was trusted" if was is None else f"before, it was {format_instant(was)}"
    )
    cli.put(f"the clock is trusted from {format_instant(now)}; {before}")
    return 0


def _agrees(cli: Session, state: EngineState, *, count: int) -> bool:
    """Explain what will happen, and ask."""
    pid = state.info.pid
    cli.say(f"engine pid {pid} is stalled: {state.why}")
    cli.say("edgecron kills its process. If a program embeds the engine, the whole program ends.")
    if count:
        continues = "continues" if count == 1 else "continue"
        cli.say(f"{count_words(count, 'active run')} {continues} under its supervisor.")
    return cli.ask(f"end pid {pid}?")


def _put_taken(cli: Session, done: TakenOver) -> None:
    if done.settled:
        cli.put(f"recorded the end of {count_words(len(done.settled), 'run')}")
    if done.queued_again:
        cli.put(f"queued {count_words(len(done.queued_again), 'run')} again that never started")
    if done.going_on:
        continues = "continues" if len(done.going_on) == 1 else "continue"
        runs = f"{count_words(len(done.going_on), 'run')} {continues} under its supervisor"
        if done.engine_pids:
            cli.put(f"{runs}; engine pid {done.engine_pids[0]} takes over")
        else:
            cli.put(f"{runs}; the next engine takes over")
    if not done.engine_pids:
        cli.say(f"no engine is running; start one: {cli.command('daemon')}")


def _taken_object(state: EngineState, done: TakenOver) -> dict[str, Any]:
    return {
        "pid": state.info.pid,
        "engine_id": state.info.id,
        "ended": True,
        "runs_going_on": list(done.going_on),
        "runs_queued_again": list(done.queued_again),
        "runs_settled": list(done.settled),
        "engines_alive": list(done.engine_pids),
    }
