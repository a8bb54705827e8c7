"""List engines, drain and resume them.

    edgecron engine list
    edgecron engine drain web1
    edgecron engine resume web1

drain lets the engines of a machine finish their runs and take no new ones, for example before you
update the machine. You can do this from any machine that reaches the database. Other engines take
the due runs. Runs of schedules with --on web1 wait for web1.

A drained engine continues to run, and takes no new runs until you resume it. An engine that you
start later takes runs. NAME is the name of a machine or the process id of an engine: see `list`.
"""

from __future__ import annotations

from argparse import Namespace
from collections import Counter

from edgecron.base.errors import NotFound, UsageError
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session
from edgecron.cli.status import engine_object
from edgecron.client.engine_health import EngineState
from edgecron.model.choices import Status
from edgecron.model.listing import RunChoice
from edgecron.views.phrases import count_words
from edgecron.views.times import near_time

USAGE = "list | drain NAME | resume NAME"
_MOST_RUNS = 10_000  # that are counted


def add_arguments(parser: Parser) -> None:
    parser.add("[list|drain|resume]", "(default: list)", dest="action", default="list")
    parser.add("[NAME]", "the machine of the engines to drain or resume")


def run(cli: Session, args: Namespace) -> int:
    actions = {"drain": _drain, "resume": _resume}
    if args.action == "list" and args.name is None:
        _list(cli)
    elif args.action == "list":
        raise UsageError("list takes no name", hint=cli.command("engine list"))
    elif args.action not in actions:
        from edgecron.cli.suggestions import refuse_action  # Only for errors.

        refuse_action("engine", args.action, ("list", *actions))
    elif args.name is None:
        raise UsageError(
            f"{args.action} has no name, expected a machine or the process id of an engine",
            hint=f"see: {cli.command('engine list')}",
        )
    else:
        actions[args.action](cli, args.name)
    return 0


def _list(cli: Session) -> None:
    client = cli.local_client(must_exist=True)
    states = client.engines()
    choice = RunChoice(statuses=(Status.RUNNING,))
    running = Counter(run.engine_id for run in client.history(choice=choice, limit=_MOST_RUNS))
    if cli.is_json:
        cli.put_json(
            {**engine_object(one), "running": running[one.info.id], "state": _state_of(one)}
            for one in states
        )
        return
    if not states:
        cli.put(f"no engine is running; start one: {cli.command('daemon')}")
        return
    now, zone = client.now(), cli.zone()
    cli.put_table(
        ("machine", "labels", "pid", "state", "running", "started"),
        [
            (
                one.info.name or "",
                ", ".join(one.info.labels),
                str(one.info.pid),
                _state_of(one),
                _load_words(one, running[one.info.id]),
                near_time(one.info.started_at, zone=zone, now=now),
            )
            for one in states
        ],
        styles=[("bold", None, None, None, None, "dim") for _ in states],
    )


def _load_words(state: EngineState, running: int) -> str:
    most = state.info.max_running
    return str(running) if most is None else f"{running} of {most}"


def _state_of(state: EngineState) -> str:
    """Return one word or two for how an engine is doing."""
    if state.info.is_stale:
        return "out of reach"
    if not state.is_alive:
        return "dead"
    if state.is_stalled:
        return "stalled"
    if state.info.drained_at is not None:
        return "drained"
    return "running" if state.info.queues else "stopping"


def _drain(cli: Session, name: str) -> None:
    client = cli.local_client(must_exist=True)
    changed = [one for one in _find(cli, name) if client.drain_engine(one.info.id)]
    words = count_words(len(changed), "engine")
    cli.say(f"drained {words} of {name}; to undo: {cli.command(f'engine resume {name}')}")


def _resume(cli: Session, name: str) -> None:
    client = cli.local_client(must_exist=True)
    changed = [one for one in _find(cli, name) if client.resume_engine(one.info.id)]
    cli.say(f"resumed {count_words(len(changed), 'engine')} of {name}")


def _find(cli: Session, name: str) -> list[EngineState]:
    states = [one for one in cli.local_client(must_exist=True).engines() if one.is_alive]
    found = [one for one in states if name in (one.info.name, str(one.info.pid))]
    if not found:
        known = sorted({one.info.name for one in states if one.info.name is not None})
        hint = f"machines with engines: {', '.join(known)}" if known else "no engine is running"
        raise NotFound(f"no engine of {name!r} is running", hint=hint)
    return found
