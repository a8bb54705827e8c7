"""Notices: each event is told once, no notice is lost, and a message stays the same."""

from __future__ import annotations

from tests.support.edits import Edit, FileEdit

from .hunts import NOTICES, fails
from .mutation import Hunt, Mutation

ALL: tuple[Mutation, ...] = (
    Mutation(
        name="judged-once",
        guard="what happened is forgotten in the transaction that writes its notices",
        proves=("O1", "15"),
        edits=(
            Edit(
                function="write_judged",
                old="DELETE FROM happenings WHERE id <= :id",
                new="DELETE FROM happenings WHERE id < :id",
            ),
        ),
        hunt=Hunt(tests=(NOTICES,), says=fails("O1")),
    ),
    Mutation(
        name="told-once",
        guard="a failure is told once until the schedule succeeds",
        proves=("O2", "15"),
        edits=(
            Edit(
                function="_judge_trouble",
                old="_tell(rule, after, judged",
                new="_tell(rule, replace(after, noticed_ms=None), judged",
            ),
        ),
        hunt=Hunt(tests=(NOTICES,), says=fails("O2")),
    ),
    Mutation(
        name="tried-again",
        guard="a notice that could not be sent is tried again",
        proves=("O3", "15"),
        edits=(
            Edit(
                function="NoticeSender._note",
                old="retry_ms=retry_ms",
                new="retry_ms=None",
            ),
        ),
        hunt=Hunt(tests=(NOTICES,), says=fails("O3")),
    ),
    Mutation(
        name="named-before-sent",
        guard="a notice has the name of its message before the message is sent",
        proves=("O4", "15"),
        edits=(
            Edit(
                function="NoticeSender._begin",
                old=(
                    "outbox.note_message(self._client.store, [one.id for one in notices],"
                    " message.id)"
                ),
                new="pass",
            ),
        ),
        hunt=Hunt(tests=(NOTICES,), says=fails("O4")),
    ),
    Mutation(
        name="replaced-ping",
        guard="a ping that a newer one replaced is never sent",
        proves=("O6",),
        edits=(
            Edit(
                function="NoticeSender._note",
                old="replaced = [one.id for one in line.replaced]",
                new="replaced: list[int] = []",
            ),
        ),
        hunt=Hunt(tests=(NOTICES,), says=fails("O6")),
    ),
    Mutation(
        name="limit-told-once",
        guard="a late or slow run is told once until a run is well again",
        proves=("O5",),
        edits=(
            Edit(
                function="_judge_watched",
                old="_tell(rule, after, judged",
                new="_tell(rule, replace(after, noticed_ms=None), judged",
            ),
        ),
        hunt=Hunt(tests=(NOTICES,), says=fails("O5")),
    ),
    Mutation(
        name="well-again",
        guard="a run that is well ends the trouble of its schedule",
        proves=("O5",),
        edits=(
            Edit(
                function="_close_over",
                old="NoticeEvent.MISSED, NoticeEvent.STALLED, *passed_ms",
                new="",
            ),
        ),
        hunt=Hunt(tests=(NOTICES,), says=fails("O5")),
    ),
    Mutation(
        name="late-again",
        guard="a run that is queued again is watched again",
        proves=("15",),
        edits=(
            FileEdit(
                file="store/sqlite/schema.sql",
                old="NEW.status = 'queued'\n    ON CONFLICT",
                new="FALSE\n    ON CONFLICT",
            ),
        ),
        hunt=Hunt(
            tests=("tests/store/test_store_notices.py",),
            says="test_a_run_that_is_queued_again_can_be_late",
        ),
    ),
)
