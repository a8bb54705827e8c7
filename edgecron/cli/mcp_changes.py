"""Schedules made and changed by the keys of a document, as `apply` and the HTTP API have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgecron.base.errors import AlreadyExists, NotFound
from edgecron.base.values import replace
from edgecron.formats.document_plan import Action, compare_one
from edgecron.formats.document_tables import read_table
from edgecron.formats.document_values import Wanted, refuse
from edgecron.views.acts import kept_words
from edgecron.views.json_objects import schedule_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgecron.cli.mcp_arguments import Arguments
    from edgecron.cli.mcp_session import ToolSession
    from edgecron.client.protocol import Client
    from edgecron.model.schedule import Schedule

ORIGIN = "mcp"


def add(session: ToolSession, arguments: Arguments) -> list[dict[str, Any]]:
    """Make a schedule. Raises AlreadyExists, and InvalidDocument with all that is wrong."""
    client, name = session.client(), arguments["name"]
    try:
        client.schedule(name)
    except NotFound:
        wanted = _read(client, name, _keys(arguments), known=None)
        [made] = client.apply((compare_one(wanted, None),), origin=ORIGIN)
        session.warn_without_engine(client, made)
        return [schedule_object(made)]
    raise AlreadyExists(f"schedule {name!r} exists already", hint="change it: edit")


def edit(session: ToolSession, arguments: Arguments) -> list[dict[str, Any]]:
    """Change keys of a schedule, null clearing one. Raises NotFound and InvalidDocument."""
    from edgecron.http.schedules import merge
    from edgecron.http.showing import document_of

    client = session.client()
    schedule = client.schedule(arguments["name"])
    table = merge(document_of(schedule), _keys(arguments))
    wanted = _read(client, schedule.name, table, known=schedule)
    if wanted.enabled is None:
        wanted = replace(wanted, enabled=True)  # Its default is not written.
    step = compare_one(wanted, schedule)
    if step.action is Action.KEEP:
        session.say(f"{schedule.name} says all of that already")
        return [schedule_object(schedule)]
    [changed] = client.apply((step,), origin=ORIGIN)
    words = kept_words(step.changes, forget=f"edgecron prune --forget {changed.name}")
    if words is not None:
        session.say(words)
    return [schedule_object(changed)]


def _keys(arguments: Arguments) -> dict[str, Any]:
    return {key: value for key, value in arguments.items() if key != "name"}


def _read(
    client: Client, name: str, document: Mapping[str, Any], *, known: Schedule | None
) -> Wanted:
    from edgecron.http.schedules import table_of

    wanted, problems = read_table(
        name,
        table_of(document),
        now=client.now(),
        known=() if known is None else known.spec.triggers,
    )
    if wanted is None:
        raise refuse(problems, "")
    return wanted
