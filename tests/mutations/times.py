"""Instants: the gap and fold rule, never early, ranges that end where the next fire begins."""

from __future__ import annotations

from .hunts import ORACLE
from .mutation import Edit, Hunt, Mutation

_CRON = "triggers/crontrigger.py"

ALL: tuple[Mutation, ...] = (
    Mutation(
        name="own-instants",
        guard="instants are ours, and not croniter's",
        proves=("1", "2"),
        edits=(
            Edit(
                file=_CRON,
                old="    def next_after_ms(self, ms: int) -> int | None:\n",
                new="    def next_after_ms(self, ms: int) -> int | None:\n"
                "        from datetime import UTC, datetime\n"
                "        from zoneinfo import ZoneInfo\n"
                "        from croniter import croniter\n"
                "        zone = ZoneInfo(self.timezone or 'UTC')\n"
                "        since = datetime.fromtimestamp(ms / 1000, UTC).astimezone(zone)\n"
                "        has_seconds = len(self.text.split()) == 6\n"
                "        found = croniter(self.text, since, second_at_beginning=has_seconds)\n"
                "        return round(found.get_next(datetime).timestamp() * 1000)\n"
                "\n"
                "    def _next_after_ms(self, ms: int) -> int | None:\n",
            ),
        ),
        hunt=Hunt(
            tests=(f"{ORACLE}::test_every_zone_agrees_with_the_oracle_around_one_of_its_changes",),
            says=r"assert \[[^\n]*\] == \[",
        ),
        is_quick=True,
    ),
)
