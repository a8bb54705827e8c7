"""Which questions may be asked of a Client from elsewhere, and how each is written.

What is not named here can't be asked. Most of them are the Client's own, by the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from edgecron.base.errors import NotFound
from edgecron.base.values import NamedTuple
from edgecron.client import Client
from edgecron.client.wire_codec import Codec, codec_of, refuse
from edgecron.client.wire_hints import hints_of

# Those that change something: they are not asked again where no answer came, or with a key alone.
WRITES = frozenset(
    {
        *("add", "add_all", "apply", "backfill", "cancel", "edit_once", "limit_group", "pause"),
        *("remove", "remove_unreadable", "reschedule", "resume", "run_once"),
        *("note_imported", "undo_removal"),
    }
)
# They answer None where there is nothing yet: after so many seconds it is looked again.
AWAITED: Mapping[str, float] = {"await_printed": 0.1, "await_begun": 0.1, "await_change": 0.25}

MOST_BYTES = 16 * 1024 * 1024  # of a question: a file of some ten thousand schedules

_OF_CLIENT = frozenset(
    {
        *("active_counts", "add", "add_all", "apply", "backfill", "cancel", "clock_state"),
        *(
            "count_schedules",
            "count_state",
            "database_sizes",
            "disk_problem",
            "state",
            "engines",
            "execution",
            "explain",
        ),
        *("find_dependents", "first_schedule_lines", "foresee", "has_engine", "history_page"),
        *("is_supervised", "late_places", "last_failure", "last_run", "limit_group", "local_zone"),
        *("names_of_all", "nearest_names", "next_attempt", "outlook", "output", "pause"),
        *("plan_backfill", "plan_document", "remove", "remove_unreadable", "removed_at"),
        *("imported", "note_imported", "removals", "undo_removal"),
        *("reschedule", "resume", "run_bounds", "run_once", "run_page", "schedule"),
        "schedule_page",
        *("schedule_ids_named", "schedule_lines", "schedule_order", "schedules", "spec_of"),
        *("standings", "take_over", "tallies", "told_before", "triggers", "triggers_at", "twins"),
        "waiting_runs",
    }
)
# Of `pieces`.
_OWN = frozenset(
    {
        *("await_begun", "await_change", "await_printed", "change_mark", "check", "edit_once"),
        *("next_fires", "now", "printed", "week_heat"),
    }
)
_LEFT_OUT = frozenset({"on_progress"})  # a function stays where it is

NAMES = tuple(sorted(_OF_CLIENT | _OWN))


class Call(NamedTuple):
    """A question: what answers it, given a Client, and how its arguments and answer are written.

    Those of `required` must be there; the others have defaults.
    """

    name: str
    function: Callable[..., Any]
    arguments: Mapping[str, Codec]
    required: frozenset[str]
    answer: Codec

    def encode_arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.arguments[name].encode(value) for name, value in given.items()}

    def decode_arguments(self, body: object) -> dict[str, Any]:
        """Raises MalformedCall, and what the values themselves raise."""
        if not isinstance(body, dict):
            raise refuse("the body", body, "an object of arguments")
        unknown = body.keys() - self.arguments.keys()
        if unknown:
            known = ", ".join(self.arguments) or "none"
            raise refuse("an argument", min(unknown), f"one of: {known}")
        for name in sorted(self.required - body.keys()):
            raise refuse("an argument", name, "to be given")
        return {name: self.arguments[name].decode(value, name) for name, value in body.items()}

    @property
    def shape(self) -> str:
        arguments = ",".join(f"{name}:{codec.shape}" for name, codec in self.arguments.items())
        return f"{self.name}({arguments})->{self.answer.shape}"


@cache
def get_call(name: str) -> Call:
    """The question of this name. Raises NotFound."""
    if name in _OF_CLIENT:
        found: Callable[..., Any] = getattr(Client, name)
    elif name in _OWN:
        found = getattr(import_module("edgecron.client.wire_pieces"), name)
    else:
        raise NotFound(
            f"there is no call {name[:60]!r}", hint="both sides must be of the same version"
        )
    hints = hints_of(found)
    names = [name for name in hints if name not in ("return", "client", *_LEFT_OUT)]
    return Call(
        name=name,
        function=found,
        arguments={name: codec_of(hints[name]) for name in names},
        required=frozenset(names) - _optional_of(found),
        answer=codec_of(hints["return"]),
    )


def _optional_of(found: Any) -> frozenset[str]:
    """The parameters of a function that have defaults. (`inspect` costs more than all of this.)"""
    code, defaults = found.__code__, found.__defaults__ or ()
    positional = code.co_varnames[: code.co_argcount]
    return frozenset(positional[len(positional) - len(defaults) :]) | frozenset(
        found.__kwdefaults__ or ()
    )
