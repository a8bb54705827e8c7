"""`success:NAME` and `success:NAME:1h`: another schedule has succeeded, ever or lately."""

from __future__ import annotations

from edgecron.base.checks import check_name
from edgecron.base.errors import InvalidDuration, InvalidInput
from edgecron.base.timetext import format_duration_ms, parse_duration_ms
from edgecron.base.values import dataclass
from edgecron.model.condition_facts import Facts

_SLACK_MS = 60_000  # by which a clock may have been set back since


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """A run of a schedule has ended well, not longer than `within_ms` ago; None: at any time."""

    schedule: str
    within_ms: int | None = None

    @property
    def text(self) -> str:
        lately = "" if self.within_ms is None else f":{format_duration_ms(self.within_ms)}"
        return f"success:{self.schedule}{lately}"

    def words(self) -> str:
        lately = "" if self.within_ms is None else f" within {format_duration_ms(self.within_ms)}"
        return f"a success of {self.schedule}{lately}"

    def is_met(self, facts: Facts) -> bool:
        ended_ms = facts.last_success_ms(self.schedule)
        if ended_ms is None:
            return False
        # One that ended in the future tells nothing of how long ago that was.
        return self.within_ms is None or -_SLACK_MS <= facts.now_ms - ended_ms <= self.within_ms


def parse_success(text: str) -> Success:
    """A condition from what follows `success:`. Raises InvalidInput."""
    name, colon, duration = text.partition(":")
    check_name(name, what="schedule name")
    if not colon:
        return Success(schedule=name)
    try:
        return Success(schedule=name, within_ms=parse_duration_ms(duration))
    except InvalidDuration as error:
        raise InvalidInput(
            f"condition 'success:{text}': {error.message}", hint=error.hint
        ) from None
