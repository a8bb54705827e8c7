"""Instants: the gap and fold rule, never early, ranges that end where the next fire begins."""

from __future__ import annotations

from .hunts import CROWDS, LIVES, ORACLE, STORIES, fails
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
    Mutation(
        name="gap",
        guard="a fixed time in a gap runs at its end",
        proves=("1",),
        edits=(
            Edit(
                file=_CRON,
                old="wall = mark if since <= start else max(wall, mark)",
                new="wall = max(wall, mark)",
            ),
        ),
        hunt=Hunt(tests=(ORACLE,), says=r"assert \[[^\n]*\] == \["),
    ),
    Mutation(
        name="fold",
        guard="a fixed time in a repeated hour runs once",
        proves=("2",),
        edits=(
            Edit(
                file=_CRON,
                old="wall = mark if since <= start else max(wall, mark)",
                new="wall = mark if since <= start and mark < wall else wall",
            ),
        ),
        hunt=Hunt(tests=(ORACLE,), says=r"assert \[[^\n]*\] == \["),
    ),
    Mutation(
        name="day-fields",
        guard="the day fields are ORed where neither starts with a star",
        proves=("1",),
        edits=(
            Edit(
                file="triggers/days.py",
                old="wanted | weekly if self.is_ored else wanted & weekly",
                new="wanted & weekly",
            ),
        ),
        hunt=Hunt(
            tests=(f"{ORACLE}::test_random_texts_agree_with_the_oracle_around_changes",),
            says=r"assert \[[^\n]*\] == \[",
        ),
    ),
    Mutation(
        name="never-early",
        guard="nothing starts before it is due",
        proves=("I17",),
        edits=(
            Edit(
                file="store/due.py",
                old="AND next_run_at <= :now\n",
                new="AND next_run_at <= :now + 500\n",
            ),
        ),
        hunt=Hunt(tests=(CROWDS,), says=fails("I17")),
    ),
    Mutation(
        name="queued-never-early",
        guard="nothing that is queued starts before it is due",
        proves=("I17",),
        edits=(
            Edit(
                file="store/queue_order.py",
                old="AND e.priority = :priority AND e.due_at <= :now\n",
                new="AND e.priority = :priority AND e.due_at <= :now + 500\n",
            ),
        ),
        hunt=Hunt(tests=(STORIES, LIVES), says=fails("I17")),
    ),
    Mutation(
        name="range-before-the-fire",
        guard="a missed range ends before the fire that catches up",
        proves=("I15", "3"),
        edits=(
            Edit(
                file="planning/catch_up.py",
                old="last_missed_ms = fires[0].plan_ms - 1 if fires else latest_ms",
                new="last_missed_ms = fires[0].plan_ms if fires else latest_ms",
            ),
        ),
        hunt=Hunt(tests=(CROWDS,), says=fails("I15")),
    ),
    Mutation(
        name="range-up-to-its-end",
        guard="a missed range takes in its last plan time",
        proves=("I15", "3"),
        edits=(
            Edit(
                file="planning/catch_up.py",
                old="last_missed_ms = fires[0].plan_ms - 1 if fires else latest_ms",
                new="last_missed_ms = fires[0].plan_ms - 1 if fires else latest_ms - 1",
            ),
        ),
        hunt=Hunt(
            tests=("tests/planning/test_planning_model.py",),
            says="test_each_due_time_is_decided_once",
        ),
    ),
    Mutation(
        name="stable-jitter",
        guard="jitter is a hash, and no random number",
        proves=("I11",),
        edits=(
            Edit(
                file="planning/next_fire.py",
                old='    return int.from_bytes(digest, "big") % (most_ms + 1)\n',
                new="    from random import randrange\n\n    return randrange(most_ms + 1)\n",
            ),
        ),
        hunt=Hunt(
            tests=("tests/planning/test_planning_jitter.py",),
            says="test_a_due_time_is_the_same_each_time_it_is_asked",
        ),
    ),
)
