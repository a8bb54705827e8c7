"""What the application says of what is done: short notices, progress, and the keys' names."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from textual.notifications import SeverityLevel
from textual.reactive import reactive

from edgecron.base.errors import EdgecronError
from edgecron.base.safetext import clean
from edgecron.tui.host import Host
from edgecron.tui.keys import DEFAULT_LABELS
from edgecron.views.phrases import error_words

# For how long it is said; what went wrong takes longer to read.
_TOLD_S: Mapping[SeverityLevel, float] = {"information": 5.0, "warning": 8.0, "error": 12.0}


class Telling(Host):
    """A host that says what became of something. `labels` are the keys of actions as people read
    them; `progress` is how far something is that takes a while, empty where nothing is; `defaults`
    are what a new schedule has unless it says otherwise, by key of a document; `removed` are the
    schedules that were removed last from here, until they are restored."""

    labels: Mapping[str, tuple[str, ...]] = DEFAULT_LABELS
    progress: reactive[str] = reactive("")
    defaults: Callable[[], Mapping[str, object]] = dict
    removed: tuple[str, ...] = ()
    _is_leaving = False

    @property
    def engine_pid(self) -> int | None:
        """The process id of the engine that runs from here; None where none does."""
        return None

    @property
    def engine_key(self) -> str:
        """The key that runs an engine from here; empty where none can be run."""
        return ""

    def tell(self, words: str, *, severity: SeverityLevel = "information") -> None:
        """Say what became of something, for some seconds, in the place of what was said before."""
        self.clear_notifications()
        self.notify(
            clean(words, keep="\n"), severity=severity, timeout=_TOLD_S[severity], markup=False
        )

    def tell_error(self, error: EdgecronError) -> None:
        """Say what went wrong with something that was asked for."""
        self.tell(error_words(error), severity="error")

    def label(self, action: str) -> str:
        """The key of an action as people read it; empty where it has none."""
        return next(iter(self.labels[action]), "")

    def leave(self) -> None:
        """End, but ask before what was asked for is left half done; whoever insists is let go."""
        going_on = self.progress or ("" if self.writes_wait is None else self.writes_wait.message)
        if not going_on or self._is_leaving:
            self.exit()
            return
        from edgecron.tui.dialogs import YesNo

        def answered(is_agreed: bool | None) -> None:
            self._is_leaving = False
            if is_agreed:
                self.exit()

        self._is_leaving = True
        words = (clean(going_on), "What is not done yet may be left undone.")
        self.push_screen(YesNo("Leave now?", words, yes="leave", is_danger=True), answered)

    def show_progress(self, words: str) -> None:
        """Say how far something is, in the place of the keys; empty: it has ended."""
        self.progress = words
