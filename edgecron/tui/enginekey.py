"""An engine run from the dashboard, by a key: started, stopped after a question, told of."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType

from edgecron.base.values import NamedTuple
from edgecron.tui.bindings import bindings
from edgecron.tui.telling import Telling

if TYPE_CHECKING:
    from edgecron.tui.ownengine import OwnEngine

_STOPPING = ("What runs goes on, and the next engine takes it over.",)


class EngineCall(NamedTuple):
    """What an engine is started for: the database, and the configuration that was given."""

    database: Path
    config_path: str | None


class EngineRunning(Telling):
    """A host from which an engine may be run; `engine_call` None: from here none can be."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("engine")

    engine_call: EngineCall | None = None
    _engine: OwnEngine | None = None

    @property
    def engine_pid(self) -> int | None:
        """The process id of the engine that runs from here; None where none does."""
        return None if self._engine is None else self._engine.pid

    @property
    def engine_key(self) -> str:
        """The key that runs an engine from here; empty where none can be run."""
        return "" if self.engine_call is None else self.label("engine")

    def action_engine(self) -> None:
        """Run an engine, or stop the one that was run from here."""
        if self._engine is None:
            self.start_engine()
        else:
            from edgecron.tui.dialogs import YesNo

            question = "Stop the engine that runs from here?"
            self.push_screen(YesNo(question, _STOPPING, yes="stop it"), self._stop_engine)

    def start_engine(self) -> None:
        """Run an engine until the dashboard ends."""
        from edgecron.tui import ownengine

        call = self.engine_call
        if call is None:
            self.tell("no engine can be run from here", severity="warning")
            return
        refusal = ownengine.find_refusal(call.database)
        if refusal is not None:
            self.tell_error(refusal)
            return
        self._engine = ownengine.OwnEngine(
            ownengine.engine_command(call.database, config_path=call.config_path),
            environment=ownengine.engine_environment(),
            ended=lambda last: self.deliver(partial(self._engine_has_ended, last)),
        )
        self.tell("an engine runs from here, and ends with the dashboard")

    def close_engine(self) -> None:
        """End it, and wait for that."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _stop_engine(self, is_wanted: bool | None) -> None:
        if is_wanted and self._engine is not None:
            self._engine.stop()

    def _engine_has_ended(self, last: str | None) -> None:
        self.close_engine()
        if last is None:
            self.tell("the engine from here has ended; what runs goes on")
        else:
            said = last.removeprefix("edgecron: ")
            self.tell(f"the engine from here has ended: {said}", severity="error")
        self.tell_changed()
