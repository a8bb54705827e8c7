"""How a function may be called is read as `inspect` reads it."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from edgecron import RunContext
from edgecron.embedding.signatures import (
    find_first_annotation,
    is_coroutine_function,
    is_generator_function,
    signature_of,
)


def nothing() -> None: ...
def one(first: int) -> None: ...
def defaulted(first: int = 1, second: int = 2) -> None: ...
def mixed(first: int, second: int = 2, *, third: int, fourth: int = 4) -> None: ...
def by_name(*, third: int) -> None: ...
def in_order(first: int, /, second: int = 2) -> None: ...
def any_number(*args: int, third: int = 3, **kwargs: int) -> None: ...
def asked(context: RunContext, first: int, second: int = 2) -> None: ...
async def coroutine(first: int) -> None: ...


def generator(first: int) -> Any:
    yield first


async def async_generator(first: int) -> Any:
    yield first


@functools.wraps(mixed)
def wrapping(*args: Any, **kwargs: Any) -> None: ...


class Callable_:
    def __call__(self, first: int) -> None: ...

    def method(self, first: int, second: int = 2) -> None: ...


FUNCTIONS: dict[str, Callable[..., object]] = {
    "nothing": nothing,
    "one": one,
    "defaulted": defaulted,
    "mixed": mixed,
    "by_name": by_name,
    "in_order": in_order,
    "any_number": any_number,
    "asked": asked,
    "coroutine": coroutine,
    "generator": generator,
    "async_generator": async_generator,
    "wrapping": wrapping,
    "partial": functools.partial(mixed, 1),
    "callable": Callable_(),
    "method": Callable_().method,
    "lambda": lambda first, second=2: None,
}
_NAMES = ("first", "second", "third", "unknown")
CALLS = [
    (tuple(range(count)), dict.fromkeys(names, 9))
    for count in range(4)
    for length in range(len(_NAMES) + 1)
    for names in itertools.combinations(_NAMES, length)
]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("skips_first", [False, True])
def test_arguments_are_bound_and_refused_as_inspect_does(name: str, skips_first: bool) -> None:
    function = FUNCTIONS[name]
    parameters = list(inspect.signature(function).parameters.values())[skips_first:]
    expected = inspect.Signature(parameters)

    signature = signature_of(function, skips_first=skips_first)

    for args, kwargs in CALLS:
        found = _outcome(signature.bind, args, kwargs)
        assert found == _outcome(lambda a, k: dict(expected.bind(*a, **k).arguments), args, kwargs)
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    assert signature.are_named == all(each.kind in named for each in parameters)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_kind_of_a_function_is_what_inspect_says(name: str) -> None:
    function = FUNCTIONS[name]

    is_generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    assert is_coroutine_function(function) == inspect.iscoroutinefunction(function)
    assert is_generator_function(function) == is_generator
    first = next(iter(inspect.signature(function).parameters.values()), None)
    assert find_first_annotation(function) == _annotation(first)


def _annotation(parameter: inspect.Parameter | None) -> object:
    if parameter is None or parameter.annotation is parameter.empty:
        return None
    return parameter.annotation


def _outcome(bind: Callable[[Any, Any], dict[str, Any]], args: Any, kwargs: Any) -> object:
    """What was bound; of an error that it is one: `inspect` of some Pythons words them apart."""
    try:
        return list(bind(args, kwargs).items())
    except TypeError:
        return "refused"
