"""List engines, drain and resume them, forget machines.

    edgecron engine list
    edgecron engine drain web1
    edgecron engine resume web1
    edgecron engine forget web1

drain lets the engines of a machine finish their runs and take no new ones, for example before you
update the machine. You can do this from any machine that reaches the database. Other engines take
the due runs. Runs of schedules with --on web1 wait for web1.

A drained engine continues to run, and takes no new runs until you resume it. An engine that you
start later takes runs. NAME is the name of a machine or the process id of an engine: see `list`.

forget is for a machine that you have removed. Schedules with --on each no longer run there, and
edgecron cancels their runs that wait for the machine. Stop the engines of the machine first: a
running engine adds its machine again.
"""

from __future__ import annotations

from argparse import Namespace

from edgecron.base.errors import Conflict, NotFound, UsageError
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session
from edgecron.cli.status import engine_object
from edgecron.client.engine_health import EngineState
from edgecron.views.phrases import count_words
from edgecron.views.times import distance, near_time

USAGE = "list | drain NAME | resume NAME | forget NAME"


def add_arguments(parser: Parser) -> None:
    parser.add("[list|drain|resume|forget]", "(default: list)", dest="action", default="list")
    parser.add("[NAME]", "the machine; drain and resume also take the process id of an engine")


def run(cli: Session, args: Namespace) -> int:
    actions = {"drain": _drain, "resume": _resume, "forget": _forget}
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
    if cli.is_json:
        cli.put_json(map(engine_object, states))
        return
    if not states:
        cli.put(f"no engine is running; start one: {cli.command('daemon')}")
        return
    now, zone = client.now(), cli.zone()
    has_leases = any(one.seen_at is not None for one in states)
    cli.put_table(
        (
            "machine",
            "labels",
            "pid",
            "state",
            "running",
            *(("seen",) if has_leases else ()),
            "started",
        ),
        [
            (
                one.info.name or "",
                ", ".join(one.info.labels),
                str(one.info.pid),
                one.word,
                one.load,
                *(
                    ("" if one.seen_at is None else distance(one.seen_at, now),)
                    if has_leases
                    else ()
                ),
                near_time(one.info.started_at, zone=zone, now=now),
            )
            for one in states
        ],
        styles=[("bold", *(None,) * (5 if has_leases else 4), "dim") for _ in states],
    )


def _drain(cli: Session, name: str) -> None:
    client = cli.local_client(must_exist=True)
    found = _find(cli, name, "drain")
    changed = [one for one in found if client.drain_engine(one.info.id)]
    undo = f"to undo: {cli.command(f'engine resume {name}')}"
    if changed:
        cli.say(f"drained {count_words(len(changed), 'engine')} of {name}; {undo}")
    else:
        cli.say(f"{_all_words(found, name)} drained already; {undo}")
    _put_objects(cli, found)


def _resume(cli: Session, name: str) -> None:
    client = cli.local_client(must_exist=True)
    found = _find(cli, name, "resume")
    changed = [one for one in found if client.resume_engine(one.info.id)]
    if changed:
        cli.say(f"resumed {count_words(len(changed), 'engine')} of {name}")
    else:
        cli.say(f"{_all_words(found, name)} not drained")
    _put_objects(cli, found)


def _forget(cli: Session, name: str) -> None:
    client = cli.local_client(must_exist=True)
    if any(one.is_alive and one.info.name == name for one in client.engines()):
        raise Conflict(
            f"{name} can't be forgotten: an engine of {name} is running",
            hint=f"stop the engine on {name} first",
        )
    count = client.forget_machine(name)
    if not count:
        raise NotFound(
            f"no schedule with --on each runs on {name!r}",
            hint=f"see the scopes of a schedule: {cli.command('show NAME')}",
        )
    verb = "runs" if count == 1 else "run"
    cli.say(f"{count_words(count, 'schedule')} with --on each no longer {verb} on {name}")


def _all_words(states: list[EngineState], name: str) -> str:
    verb = "is" if len(states) == 1 else "are"
    return f"{count_words(len(states), 'engine')} of {name} {verb}"


def _put_objects(cli: Session, states: list[EngineState]) -> None:
    """With --json, print engines as they are now."""
    if cli.is_json:
        ids = {one.info.id for one in states}
        cli.put_json(
            engine_object(one) for one in cli.local_client().engines() if one.info.id in ids
        )


def _find(cli: Session, name: str, action: str) -> list[EngineState]:
    """Find the engines of a machine, or the one of a process id. Raises NotFound and Conflict."""
    states = [one for one in cli.local_client(must_exist=True).engines() if one.is_alive]
    found = [one for one in states if one.info.name == name]
    if found:
        return found
    found = [one for one in states if str(one.info.pid) == name]
    machines = sorted({one.info.name or "" for one in found})
    if len(found) > 1:
        raise Conflict(
            f"{len(found)} engines have the process id {name}: on {' and '.join(machines)}",
            hint=f"name the machine: {cli.command(f'engine {action} {machines[0]}')}",
        )
    if not found:
        known = sorted({one.info.name for one in states if one.info.name is not None})
        start = f"start one: {cli.command('daemon')}"
        hint = f"machines with engines: {', '.join(known)}" if known else start
        raise NotFound(f"no engine of {name!r} is running", hint=hint)
    return found
