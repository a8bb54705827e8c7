"""Code around every function of a program: before it, after it, and at its exceptions."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from inspect import isasyncgenfunction, isgeneratorfunction
from typing import Any

from edgecron.base.errors import InvalidInput

# As a context manager, and as an asynchronous one. One of them is None.
_Around = tuple[
    Callable[[object], AbstractContextManager[Any]] | None,
    Callable[[object], AbstractAsyncContextManager[Any]] | None,
]


class Middleware:
    """The middleware of a program, in the order of declaration: the first is the outermost."""

    def __init__(self) -> None:
        self._functions: tuple[Callable[..., Any], ...] = ()
        self._all: tuple[_Around, ...] = ()  # for each function

    def add(self, function: Callable[..., Any]) -> None:
        """Add a generator function. Raises InvalidInput for another value.

        A function of the same module and name, such as of a cell that is run again, is replaced.
        """
        if isgeneratorfunction(function):
            one: _Around = (contextmanager(function), None)
        elif isasyncgenfunction(function):
            one = (None, asynccontextmanager(function))
        else:
            raise InvalidInput(
                f"middleware is {function!r:.60}, expected a generator function",
                hint="such as def timed(run), with one yield: the function is called there",
            )

        places = [at for at, other in enumerate(self._functions) if _is_again(function, other)]
        at = places[0] if places else len(self._functions)
        self._functions = (*self._functions[:at], function, *self._functions[at + 1 :])
        self._all = (*self._all[:at], one, *self._all[at + 1 :])

    def __bool__(self) -> bool:
        return bool(self._all)

    def call(self, run: object, function: Callable[[], object]) -> object:
        """Call a function within the middleware. Asynchronous middleware is left out."""
        with ExitStack() as stack:
            for plain, _ in self._all:
                if plain is not None:
                    stack.enter_context(plain(run))
            return function()
        return None  # A middleware has caught the exception.

    async def acall(self, run: object, function: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Call a coroutine function within the middleware, and await it."""
        async with AsyncExitStack() as stack:
            for plain, asynchronous in self._all:
                if asynchronous is not None:
                    await stack.enter_async_context(asynchronous(run))
                elif plain is not None:
                    stack.enter_context(plain(run))
            return await function()
        return None  # A middleware has caught the exception.


def _is_again(new: Callable[..., Any], old: Callable[..., Any]) -> bool:
    """Report whether a top-level function was defined again; one within a function is another."""
    names = [(one.__module__, one.__qualname__) for one in (new, old)]
    return names[0] == names[1] and "<locals>" not in new.__qualname__
