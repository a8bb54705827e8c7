"""A session that collects what a verb says, instead of showing it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from edgecron.base.safetext import clean
from edgecron.cli.session import Session

if TYPE_CHECKING:
    from edgecron.client.protocol import Client


class ToolSession(Session):
    """One call's session: on the database of another one, it collects what a verb says."""

    def __init__(self, outer: Session) -> None:
        super().__init__()
        self.is_json = True
        self.database, self.config_path = outer.database, outer.config_path
        self.url, self.token_file = outer.url, outer.token_file
        self.url, self.token_file = outer.url, outer.token_file
        self.objects: list[Mapping[str, Any]] = []
        self.notes: list[str] = []
        self._outer = outer

    def client(self, *, must_exist: bool = False) -> Client:
        # Whatever is asked, no database is made: which one was meant is a person's to say.
        return self._outer.client(must_exist=True)

    def find_client(self) -> Client | None:
        return self._outer.find_client()

    def close(self) -> None:
        """Nothing: the database is another session's."""

    def put(self, text: str = "") -> None:
        self.say(text)

    def put_json(self, objects: Iterable[Mapping[str, Any]]) -> None:
        self.objects += objects

    def say(self, text: str) -> None:
        self.notes.append(clean(text.removeprefix("edgecron: ")))

    def warn(self, text: str) -> None:
        self.say(text)

    def is_advised(self) -> bool:
        return False

    def ask(self, question: str) -> bool:
        return False

    def run_verb(self, verb: str, words: list[str]) -> list[Mapping[str, Any]]:
        """Run a verb with these words, and collect what it answers. Raises as the verb does."""
        from edgecron.cli.options import parser_of

        self.verb = verb
        module, parser = parser_of(verb)
        args: Namespace = parser.parse_verb(words)
        args.argv = None
        module.run(self, args)
        return self.objects
