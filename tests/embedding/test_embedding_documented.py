"""Each public call and option of the Python interface is in an example that help shows."""

from __future__ import annotations

import ast
import inspect

import pytest

from edgecron import Entry, EventStream, Job, Run, RunContext, Scheduler, Subscription
from edgecron.cli.help_ import TOPICS, read_topic
from edgecron.embedding import declarations
from edgecron.embedding.declared_options import COMMAND_OPTION_NAMES
from edgecron.embedding.enqueuing import CALL_OPTIONS
from edgecron.embedding.failures import RULE_NAMES
from tests.support.examples import code_of, python_of

# `tests/test_examples.py` runs each of these programs.
_NODES = [
    node for name in TOPICS for node in ast.walk(ast.parse(python_of(code_of(read_topic(name)))[0]))
]
CALLED = {node.attr for node in _NODES if isinstance(node, ast.Attribute)}
GIVEN = {node.arg for node in _NODES if isinstance(node, ast.keyword)}
# What only other modules of edgecron use.
_OF_EDGECRON = {
    Scheduler: {"find_declaration", "forget_added", "keep_declared", "origin", "reset_in_child"},
    Subscription: {"deliver", "finish", "reset_in_child"},
}


@pytest.mark.parametrize(
    "kind", [Scheduler, Job, Entry, Run, RunContext, EventStream, Subscription]
)
def test_each_public_name_is_in_an_example(kind: type) -> None:
    public = {name for name in dir(kind) if not name.startswith("_")}

    assert public - CALLED - _OF_EDGECRON.get(kind, set()) == set()


def test_each_option_is_in_an_example() -> None:
    scheduler = inspect.signature(Scheduler).parameters.keys() - {"database", "unknown"}
    job = inspect.signature(Scheduler.job).parameters.keys() - {"self", "when", "options"}
    add = inspect.signature(Scheduler.add).parameters.keys() - {"self", "name", "when", "options"}

    assert {*scheduler, *job, *add, *RULE_NAMES} - GIVEN == set()
    assert {*COMMAND_OPTION_NAMES, *CALL_OPTIONS} - GIVEN == set()


def test_type_checkers_know_each_option() -> None:
    known = {
        field.target.id
        for node in ast.walk(ast.parse(inspect.getsource(declarations)))
        if isinstance(node, ast.ClassDef) and node.name in ("Options", "CommandOptions")
        for field in node.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    }

    assert known == set(COMMAND_OPTION_NAMES)
