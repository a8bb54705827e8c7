"""Modules that are loaded when something of them is first used.

A verb that reads a few rows does not pay, at each start, for all that an engine writes.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from edgecron.store.forks import loading


class Later(ModuleType):
    """Stands for a module until something of it is used, and is as good as it from then on."""

    def __getattr__(self, name: str) -> object:
        self.load()
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None

    def load(self) -> None:
        """Load it now."""
        with loading:
            self.__dict__.update(import_module(self.__name__).__dict__)


def later(package: str, *names: str) -> tuple[Later, ...]:
    """What stands for modules of a package, in the order of their names."""
    return tuple(Later(f"{package}.{name}") for name in names)
