"""The machine's clock: whether it can be trusted, by which every planned time is decided."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC

from edgecron.base.units import format_ms, from_ms
from edgecron.client import Client
from edgecron.client.finding import Finding, problem, warning, well
from edgecron.planning.trust import ClockState, resolve_margin_ms
from edgecron.views.times import clock_set_words

TRUST = "doctor --trust-clock"
_DAY_MS = 86_400_000
_FEW_DAYS = 60


def check_clock(client: Client, *, command: Callable[[str], str]) -> list[Finding]:
    """Whether engines believe the clock, and if not what they go by."""
    state = client.clock_state()
    found = _judge_set(state)
    if state.is_synchronised:
        return [*found, well("clock", "kept right, as the kernel says")]
    margin_days = resolve_margin_ms(state.now_ms, mark_ms=state.mark_ms) // _DAY_MS
    if state.is_trusted and margin_days < _FEW_DAYS:
        return [
            *found,
            warning(
                "clock",
                f"nothing keeps it right, and after {margin_days} more days without an engine it"
                " can't be trusted any more",
                hint=f"have it kept right (NTP); if it is right: {command(TRUST)}",
            ),
        ]
    if state.is_trusted:
        kept = "is not" if state.is_synchronised is False else "may not be"
        return [*found, well("clock", f"plausible; it {kept} synchronised")]
    return [
        *found,
        problem(
            "clock",
            f"it says {format_ms(state.now_ms)} and can't be trusted, for the last time known is"
            f" {format_ms(state.mark_ms)}: cron and `at` times are held",
            hint=f"set it, or have it kept right (NTP); if it is right: {command(TRUST)}",
        ),
    ]


def _judge_set(state: ClockState) -> list[Finding]:
    """That the clock was set, for a day, and what the effect is."""
    if state.set_at_ms is None or state.set_by_ms is None:
        return []
    words = clock_set_words(
        from_ms(state.set_at_ms), state.set_by_ms, zone=UTC, now=from_ms(state.now_ms)
    )
    if words is None:
        return []
    hint = "if nobody meant to set it, have it kept right (NTP)"
    return [warning("clock", f"it {words} (times in UTC)", hint=hint)]
