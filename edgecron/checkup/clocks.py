"""The machine's clock: whether it can be trusted, by which every planned time is decided."""

from __future__ import annotations

from collections.abc import Callable

from edgecron.api import Client
from edgecron.checkup.finding import Finding, problem, warning, well
from edgecron.timetext import format_ms
from edgecron.trust import resolve_margin_ms

TRUST = "doctor --trust-clock"
_DAY_MS = 86_400_000
_FEW_DAYS = 60


def check_clock(client: Client, *, command: Callable[[str], str]) -> list[Finding]:
    """Whether engines believe the clock, and if not what they go by."""
    state = client.clock_state()
    if state.is_synchronised:
        return [well("clock", "kept right, as the kernel says")]
    margin_days = resolve_margin_ms(state.now_ms, mark_ms=state.mark_ms) // _DAY_MS
    if state.is_trusted and margin_days < _FEW_DAYS:
        return [
            warning(
                "clock",
                f"nothing keeps it right, and after {margin_days} more days without an engine it"
                " can't be trusted any more",
                hint=f"have it kept right (NTP); if it is right: {command(TRUST)}",
            )
        ]
    if state.is_trusted:
        kept = "is not" if state.is_synchronised is False else "may not be"
        return [well("clock", f"plausible; it {kept} synchronised")]
    return [
        problem(
            "clock",
            f"it says {format_ms(state.now_ms)} and can't be trusted, for the last time known is"
            f" {format_ms(state.mark_ms)}: cron and `at` times are held",
            hint=f"set it, or have it kept right (NTP); if it is right: {command(TRUST)}",
        )
    ]
