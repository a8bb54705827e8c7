"""Instants: the gap and fold rule, never early, ranges that end where the next fire begins."""

from __future__ import annotations

from tests.support.edits import Edit

from .hunts import CROWDS, LIVES, ORACLE, STORIES, fails
from .mutation import Hunt, Mutation

ALL: tuple[Mutation, ...] = (
    Mutation(
        name="own-instants",
        guard="instants are ours, and not croniter's",
        proves=("1", "2"),
        edits=(
            Edit(
                function="CronTrigger.next_after_ms",
                old="since = max(ms // 1000 + 1, _EARLIEST_S)",
                new=(
                    "from datetime import UTC, datetime\n"
                    "    from zoneinfo import ZoneInfo\n"
                    "    from croniter import croniter\n"
                    "    zone = ZoneInfo(self.timezone or 'UTC')\n"
                    "    since = datetime.fromtimestamp(ms / 1000, UTC).astimezone(zone)\n"
                    "    has_seconds = len(self.text.split()) == 6\n"
                    "    found = croniter(self.text, since, second_at_beginning=has_seconds)\n"
                    "    return round(found.get_next(datetime).timestamp() * 1000)\n"
                    "    since = max(ms // 1000 + 1, _EARLIEST_S)"
                ),
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
                function="CronTrigger.next_after_ms",
                old="mark if since <= start else max(wall,",
                new="max(wall,",
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
                function="CronTrigger.next_after_ms",
                old="else max(wall, mark)",
                new="and mark < wall else wall",
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
                function="_match_days",
                old="| weekly if rule.is_ored else wanted &",
                new="&",
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
        edits=(Edit(function="find_due", old="{_HELD[hold]}", new="+ 500 {_HELD[hold]}"),),
        hunt=Hunt(tests=(CROWDS,), says=fails("I17")),
    ),
    Mutation(
        name="queued-never-early",
        guard="nothing that is queued starts before it is due",
        proves=("I17",),
        edits=(Edit(function="_find_page", old=":now AND", new=":now + 500 AND"),),
        hunt=Hunt(tests=(STORIES, LIVES), says=fails("I17")),
    ),
    Mutation(
        name="range-before-the-fire",
        guard="a missed range ends before the fire that catches up",
        proves=("I15", "3"),
        edits=(Edit(function="_missed", old="- 1 if", new="if"),),
        hunt=Hunt(tests=(CROWDS,), says=fails("I15")),
    ),
    Mutation(
        name="range-up-to-its-end",
        guard="a missed range takes in its last plan time",
        proves=("I15", "3"),
        edits=(Edit(function="_missed", old="else latest_ms", new="else latest_ms - 1"),),
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
                function="jitter_of",
                old="return int.from_bytes(digest, 'big') % (most_ms",
                new=("from random import randrange\n    return randrange(most_ms"),
            ),
        ),
        hunt=Hunt(
            tests=("tests/planning/test_planning_jitter.py",),
            says="test_a_due_time_is_the_same_each_time_it_is_asked",
        ),
    ),
)
