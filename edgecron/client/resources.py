"""The resources of the HTTP API that edgecron's own clients use: one table for both sides.

Each resource has a name, a method, a path, and the key of its answer. The method of this name of
the Protocol `Client` answers, or, if requests need other parameters, one of `resource_functions`.
Its parameters come from the path, then from the query of a GET, or the body of other methods. They
are those of the function, but for `API_NAMES`; callbacks are not sent.
`edgecron.http` serves the resources, `RemoteClient` asks for them, and the OpenAPI document
describes them, all from this table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, get_origin
from urllib.parse import quote, urlencode

from edgecron.base.checks import json_words, read_json
from edgecron.base.errors import (
    InvalidInput,
    MalformedCall,
    ServerUnavailable,
)
from edgecron.base.values import NamedTuple
from edgecron.client import resource_functions
from edgecron.client.json_forms import OWN_FORMS, check_object, form_of, hints_of
from edgecron.client.plain_forms import ABSENT, Form, Shape, read_error, refuse
from edgecron.client.protocol import Client
from edgecron.client.record_forms import RECORD_FORMS

OWN_FORMS.update(RECORD_FORMS)

API = "/api/v1"
TIME_HEADER = "Edgecron-Time"
KEY = "key"  # the parameter that is sent as Idempotency-Key
MOST_BYTES = 16 * 1024 * 1024  # of a request: a file of some ten thousand schedules
MOST_WAIT_MS = 10_000


class Resource(NamedTuple):
    """A resource: its `name`, and the `key` of the answer in its object.

    `key` '' means that the answer is the object. If `is_shared`, a route of `edgecron.http` answers
    by its own code, with more than this client reads. `pause_s`: the answer can wait for news; the
    server looks for them this often.
    """

    name: str
    method: str
    path: str
    key: str
    tag: str
    is_write: bool = False
    is_shared: bool = False
    pause_s: float | None = None

    @property
    def path_words(self) -> dict[str, str]:
        """The words of its path, each with the name of its parameter."""
        words = [part[1:-1] for part in self.path.split("/") if part.startswith("{")]
        return {word: _PARAMETERS.get(word, word) for word in words}


_PARAMETERS = {"id": "execution_id"}
# Parameters of methods of `Client` that the API names otherwise. A run is sent as its id.
API_NAMES: Mapping[str, Mapping[str, str]] = {
    "schedule_order": {"matches": "filter"},
    "schedule_ids_named": {"matches": "filter"},
    "tallies": {"name": "schedule"},
    "reschedule": {"run_at": "time"},
    "next_attempt": {"execution": "execution_id"},
    "spec_of": {"execution": "execution_id"},
    "is_supervised": {"execution": "execution_id"},
}
# The least and most of numbers in requests. `upcoming` fires are computed one by one.
_BOUNDS: Mapping[str, tuple[int, int]] = {
    "upcoming": (0, 1_000),
    "limit": (0, 100_000),
    "cells": (1, 1_000),
}
_MOST_INTEGER = 2**63 - 1  # of SQLite
# They answer null while there is nothing new. After so many seconds the server looks again.
_PAUSES_S: Mapping[str, float] = {"await_printed": 0.1, "await_begun": 0.1, "await_change": 0.25}


def _rows(tag: str, table: str, *, is_shared: bool = False) -> list[Resource]:
    """Read a table: name, method (! if it changes something), path, and key or -."""
    found = []
    for row in table.strip().splitlines():
        name, method, path, key = row.split()
        found.append(
            Resource(
                name=name,
                method=method.rstrip("!"),
                path=path,
                key=key.strip("-"),
                tag=tag,
                is_write=method.endswith("!"),
                is_shared=is_shared,
                pause_s=_PAUSES_S.get(name),
            )
        )
    return found


_SHARED_SCHEDULES = """
schedule       GET      /schedules/{name}             -
schedule_page  GET      /schedules                    -
pause          POST!    /schedules/{name}/pause       -
resume         POST!    /schedules/{name}/resume      -
reschedule     POST!    /schedules/{name}/reschedule  -
remove         DELETE!  /schedules/{name}             -
next_fires     GET      /next                         fires
"""
_SHARED_RUNS = """
run_once       POST!    /schedules/{name}/fire        runs
execution      GET      /runs/{id}                    -
cancel         POST!    /runs/{id}/cancel             -
history_page   GET      /runs                         -
"""
_SCHEDULES = """
standings             GET    /standings                       standings
schedule_order        GET    /schedule-ids                    ids
schedule_lines        POST   /schedule-lines                  lines
first_schedule_lines  GET    /schedule-lines                  lines
schedule_names        GET    /schedule-names                  schedules
schedule_ids_named    GET    /past-schedule-ids               ids
nearest_names         GET    /nearest-names                   names
outlook               GET    /schedules/{name}/outlook        -
explain               GET    /schedules/{name}/explanation    -
find_dependents       GET    /schedules/{name}/dependents     names
state                 GET    /schedules/{name}/state          state
count_state           GET    /schedules/{name}/state-count    count
triggers              POST   /triggers                        triggers
triggers_at           GET    /schedules/{name}/triggers       triggers
last_run              GET    /schedules/{name}/last-run       run
removals              GET    /schedules/{name}/removals       removals
removed_at            GET    /schedules/{name}/removed-at     removed_at
foresee               POST   /forecasts                       -
week_heat             GET    /week                            -
timeline              POST   /timeline                        lanes
simulate              POST   /simulations                     -
tallies               GET    /statistics                      -
add_all               POST!  /specifications                  schedules
edit_once             PUT!   /schedules/{name}/specification  schedule
remove_unreadable     POST!  /schedules/{name}/discard        is_removed
undo_removal          POST!  /removals/undo                   schedules
changes               GET    /schedules/{name}/changes        changes
last_changed          GET    /last-changed                    names
plan_undo             GET    /schedules/{name}/undo           -
undo                  POST!  /schedules/{name}/undo           -
limit_group           PUT!   /groups/{group}                  -
acknowledged          POST   /acknowledged                    acknowledged
acknowledge           PUT!   /acknowledged                    -
"""
_PLANS = """
plan_document  POST   /plans                      steps
check          POST   /plans/check                -
apply          POST!  /plans/apply                schedules
plan_backfill  GET    /schedules/{name}/backfill  -
backfill       POST!  /schedules/{name}/backfill  runs
imported       GET    /imports                    imports
note_imported  POST!  /imports                    -
"""
_RUNS = """
run_page       POST  /run-pages                    -
run_bounds     GET   /run-bounds                   -
waiting_runs   GET   /waiting-runs                 runs
last_failure   GET   /last-failure                 run
next_attempt   GET   /runs/{id}/next-attempt       run
spec_of        GET   /runs/{id}/specification      specification
is_supervised  GET   /runs/{id}/supervision        is_supervised
output         GET   /runs/{id}/stored-output      output
printed        GET   /runs/{id}/chunks             -
await_printed  GET   /runs/{id}/next-chunks        printed
begun_runs     GET   /schedules/{name}/begun-runs  -
await_begun    POST  /begun-runs                   begun
"""
_ABOUT = """
status        GET   /status             -
engines       GET   /engines            engines
notices       GET   /notices            notices
other_databases  GET   /other-databases    databases
has_engine    GET   /engines/coverage   has_engine
take_over     POST  /engines/take-over  -
change_mark   GET   /changes            mark
await_change  GET   /changes/next       mark
"""
RESOURCES: Mapping[str, Resource] = {
    resource.name: resource
    for resource in (
        *_rows("schedules", _SHARED_SCHEDULES, is_shared=True),
        *_rows("runs", _SHARED_RUNS, is_shared=True),
        *_rows("schedules", _SCHEDULES),
        *_rows("plans", _PLANS),
        *_rows("runs", _RUNS),
        *_rows("about", _ABOUT),
    )
}

_WAIT = re.compile(r"[?&]wait_ms=[0-9]+$")


class ResourceTypes(NamedTuple):
    """A resource with all that is known from type hints: its parameters and its answer."""

    resource: Resource
    words: str  # what it does, in one line
    hints: Mapping[str, Any]
    parameters: Mapping[str, Form]
    required: frozenset[str]
    answer: Form

    def ask(self, client: Client, arguments: Mapping[str, Any]) -> Any:
        """Return the answer of a database."""
        own = getattr(resource_functions, self.resource.name, None)
        if own is not None:
            return own(client, **arguments)
        names = {api: own for own, api in API_NAMES.get(self.resource.name, {}).items()}
        given = {names.get(name, name): value for name, value in arguments.items()}
        if "execution" in given:
            given["execution"] = client.execution(given["execution"])
        return getattr(client, self.resource.name)(**given)


@cache
def resource_types(name: str) -> ResourceTypes:
    """Return the resource of this name with its types."""
    function: Any = getattr(resource_functions, name, None) or getattr(Client, name)
    renamed = API_NAMES.get(name, {})
    hints = {
        renamed.get(one, one): int if one == "execution" else hint
        for one, hint in hints_of(function).items()
        if get_origin(hint) is not Callable
    }
    names = [one for one in hints if one not in ("return", "client")]
    code, defaults = function.__code__, function.__defaults__ or ()
    optional = {
        *code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount],
        *(function.__kwdefaults__ or ()),
    }
    return ResourceTypes(
        resource=RESOURCES[name],
        words=(function.__doc__ or "").partition("\n")[0],
        hints=hints,
        parameters={one: _bounded(one, form_of(hints[one])) for one in names},
        required=frozenset(names) - {renamed.get(one, one) for one in optional},
        answer=form_of(hints["return"]),
    )


def _bounded(name: str, form: Form) -> Form:
    """Bound a number that a request gives: a large one must not cost the server memory or time."""
    shape = _core(form.shape)
    if shape.get("type") != "integer":
        return form
    least, most = _BOUNDS.get(name, (-_MOST_INTEGER, _MOST_INTEGER))

    def decode(value: Any, where: str, is_strict: bool) -> Any:
        decoded = form.decode(value, where, is_strict)
        if decoded is not None and not least <= decoded <= most:
            raise refuse(where, value, f"a number from {least} to {most}")
        return decoded

    bounded: Shape = {**shape, "minimum": least, "maximum": most}
    if "anyOf" in form.shape:
        bounded = {**form.shape, "anyOf": [bounded, *form.shape["anyOf"][1:]]}
    return form._replace(decode=decode, shape=bounded)


# Requests.


class Request(NamedTuple):
    """A request as it goes out; `body` None if it has none."""

    method: str
    target: str
    body: bytes | None = None
    is_write: bool = False
    key: str | None = None  # it is done once for a key

    def without_wait(self) -> Request:
        """The same, answered immediately even if there is nothing new."""
        return self._replace(target=_WAIT.sub("", self.target))


def write_request(
    name: str, arguments: Mapping[str, Any], *, wait_ms: int | None = None
) -> Request:
    """Return the request that asks for a resource.

    None and False are not sent if the parameter has a default, which is the same: an older server
    might not know it. Raises InvalidInput if the request is larger than any server takes.
    """
    asked = resource_types(name)
    resource = asked.resource
    given = {
        key: asked.parameters[key].encode(value)
        for key, value in arguments.items()
        if key in asked.required
        or not (value is None or (value is False and asked.hints[key] is bool))
    }
    words = {
        word: quote(str(given.pop(name)), safe="") for word, name in resource.path_words.items()
    }
    target = API + resource.path.format(**words)
    key = given.pop(KEY, None)
    query: list[tuple[str, str]] = []
    body = None
    if resource.method == "GET":
        for parameter, value in given.items():
            values = value if isinstance(value, list) else [value]
            query += [(parameter, _query_text(one)) for one in values if one is not None]
    elif given:
        body = json.dumps(given, separators=(",", ":"), allow_nan=False).encode("ascii")
        if len(body) > MOST_BYTES:
            raise InvalidInput(
                f"the request has {len(body)} bytes, expected at most {MOST_BYTES}",
                hint="apply the file in parts, or on the machine of the database",
            )
    if wait_ms is not None:
        query.append(("wait_ms", str(wait_ms)))
    if query:
        target = f"{target}?{urlencode(query, errors='surrogatepass')}"
    return Request(resource.method, target, body, resource.is_write, key)


def _query_text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def read_arguments(
    asked: ResourceTypes,
    *,
    words: Mapping[str, str],
    query: Sequence[tuple[str, str]],
    content: Any,
) -> dict[str, Any]:
    """Read the parameters of a request. Raises MalformedCall, and what the values raise."""
    resource = asked.resource
    names_of_words = resource.path_words
    given: dict[str, Any] = {
        names_of_words[word]: _value_of(text, asked, names_of_words[word])
        for word, text in words.items()
    }
    names = asked.parameters.keys() - set(names_of_words.values())
    if resource.method != "GET":
        check_object(content, names, where="the body", is_strict=True)
        given |= content
        names = set()
    for key, text in query:
        if key not in names:
            known = ", ".join(sorted(names)) or "none"
            raise refuse("a parameter", key, f"one of: {known}")
        value = _value_of(text, asked, key)
        if _core(asked.parameters[key].shape).get("type") == "array":
            given.setdefault(key, []).append(value)
        elif key in given:
            raise refuse(f"parameter {key}", text, "once")
        else:
            given[key] = value
    for key in sorted(asked.required - given.keys()):
        if asked.parameters[key].default is ABSENT:
            raise MalformedCall(f"{key} is missing")
        given[key] = asked.parameters[key].default
    return {key: asked.parameters[key].decode(value, key, True) for key, value in given.items()}


def _core(shape: Any) -> Any:
    """A shape without its null."""
    return shape["anyOf"][0] if "anyOf" in shape else shape


def _value_of(text: str, asked: ResourceTypes, key: str) -> Any:
    """The text of a path or query as the JSON value that its parameter wants, if it is one."""
    shape = _core(asked.parameters[key].shape)
    if shape.get("type") == "array":
        shape = _core(shape["items"])
    kind = shape.get("type")
    if kind == "integer" and text.removeprefix("-").isdecimal() and len(text) <= 20:
        return int(text) if text.isascii() else text
    if kind == "boolean" and text in ("true", "false"):
        return text == "true"
    return text


# Answers.


def answer_object(asked: ResourceTypes, value: Any) -> dict[str, Any]:
    """Return an answer as its object."""
    found = asked.answer.encode(value)
    if asked.resource.key:
        return {asked.resource.key: found}
    return {} if found is None else found


def read_answer(asked: ResourceTypes, body: bytes) -> Any:
    """Return the value of an answer.

    Raises the error that it holds, and ServerUnavailable if it can't be read.
    """
    try:
        content = _load(body) if body else {}
        is_error = isinstance(content, dict) and content.keys() == {"error"}
        error = read_error(content["error"]) if is_error else None
        if error is None:
            return _read_answer_object(asked, content)
    except (MalformedCall, RecursionError) as malformed:
        raise ServerUnavailable(
            f"the answer to {asked.resource.name} can't be read: {malformed}",
            hint="use the same version on both machines",
        ) from malformed
    raise error


def _load(body: bytes) -> Any:
    try:
        return read_json(body)
    except ValueError as error:
        raise MalformedCall(f"the body is not JSON: {json_words(error)}") from None


def _read_answer_object(asked: ResourceTypes, content: Any) -> Any:
    key = asked.resource.key
    if not key:
        found = content
    elif isinstance(content, dict) and key in content:
        found = content[key]
    else:
        raise refuse("the answer", content, f"an object with {key}")
    if not key and asked.answer.shape == {"type": "null"}:
        check_object(content, (), where="the answer", is_strict=False)
        return None
    return asked.answer.decode(found, key or "the answer", False)
