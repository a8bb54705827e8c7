"""What a run says of itself: how far it is, and what its schedule is to remember.

Both come from jobs. They are checked at birth: what can't be written would hold up ends.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgecron.base.checks import check_json, check_range, check_text
from edgecron.base.safetext import clean
from edgecron.base.values import NamedTuple, dataclass

MOST_STATE_KEYS = 1000  # of a schedule
MOST_STATE_BYTES = 64 * 1024  # of a value
MOST_ALL_STATE_BYTES = 1024 * 1024  # of all keys and values of a schedule
STATE_REFUSED = "state_refused"  # the flag of a run whose changes would have made it larger
_MOST_LETTERS = 200  # of what a progress says


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is: a fraction from 0 to 1, None where it can't tell, and a few words.

    Steps of less than a ten-thousandth are none. Of words, the first 200 letters are kept, and
    what a terminal would obey is shown escaped.
    """

    fraction: float | None
    text: str = ""

    def __post_init__(self) -> None:
        if self.fraction is not None:
            # A sum of ten tenths may be a little more than 1.
            object.__setattr__(self, "fraction", round(float(self.fraction), 4))
        check_range("progress", self.fraction, 0, 1)
        storable = self.text.encode("utf-8", "backslashreplace").decode()
        object.__setattr__(self, "text", clean(storable)[:_MOST_LETTERS])


class Reported(NamedTuple):
    """The progress of a running execution, as `progress_text` has it."""

    execution_id: int
    lease_token: str
    progress: str


def progress_text(progress: Progress) -> str:
    """A progress as it is stored."""
    import json

    body = {"fraction": progress.fraction, "text": progress.text}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def read_progress(stored: str | None) -> Progress | None:
    """A progress as it was stored; None where there is none, or none that can be read."""
    import json

    if stored is None:
        return None
    try:
        body = json.loads(stored)
        return Progress(fraction=body["fraction"], text=body["text"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return None  # Nothing is decided by it.


def check_state_key(key: str) -> None:
    """Raise InvalidInput for what is no key: 1 to 128 printable characters."""
    check_text(key, what="state key", most=128)


def check_state_value(key: str, value: str) -> None:
    """Raise InvalidInput for a value that is no JSON, or longer than 64 KiB."""
    check_json(value, what=f"the state {key!r}", most_bytes=MOST_STATE_BYTES)


def fits_state(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether a state is within its limits, or at least no larger than it was."""
    return _fits(len(before), len(after), MOST_STATE_KEYS) and _fits(
        state_bytes(before), state_bytes(after), MOST_ALL_STATE_BYTES
    )


def state_bytes(state: Mapping[str, str]) -> int:
    """The size of a state."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in state.items())


def _fits(before: int, after: int, most: int) -> bool:
    return after <= most or after <= before
