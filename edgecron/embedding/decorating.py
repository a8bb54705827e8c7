"""How the types of a function go through `@scheduler.job(...)`. For type checkers alone."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from edgecron.embedding.context import RunContext
from edgecron.embedding.job import Job

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
T = TypeVar("T")


class Decorate(Protocol):
    """Makes a Job of a function: with or without a context, a coroutine or not."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[RunContext, Q], Coroutine[Any, Any, T]], /
    ) -> Job[Concatenate[RunContext, Q], Q, Coroutine[Any, Any, T], T]: ...

    @overload
    def __call__(
        self, function: Callable[Concatenate[RunContext, Q], R], /
    ) -> Job[Concatenate[RunContext, Q], Q, R, R]: ...

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> Job[P, P, Coroutine[Any, Any, T], T]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Job[P, P, R, R]: ...
