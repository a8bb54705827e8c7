"""Fences: a number for each claim of a schedule that is larger than every one before it.

A fence is at least the time of its claim in milliseconds. So it also grows where the number before
it is lost: in a restored backup, or for a schedule that was removed and made again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence

from edgecron.store.connection import Database
from edgecron.store.contract import Granted


def give_fences(
    database: Database,
    granted: Sequence[Granted],
    *,
    now_ms: int,
    fenced: Collection[int] = (),
) -> tuple[Granted, ...]:
    """Give these claims their fences, inside the claiming transaction.

    Their rows have the time of the claim. It is right for the first claim of each schedule in
    `fenced`, whose row has it too: these cost no statement of their own.
    """
    unused = set(fenced)
    late = []
    for place, grant in enumerate(granted):
        if grant.schedule_id in unused:
            unused.remove(grant.schedule_id)
        else:
            late.append(place)
    if not late:
        return tuple(granted)
    counts = Counter(granted[place].schedule_id for place in late)
    following = {
        schedule_id: fence - counts[schedule_id]
        for schedule_id, fence in database.returning_all(
            """UPDATE schedules
               SET fence = max(schedules.fence, :now - 1) + (:counts ->> CAST(id AS TEXT))
               WHERE id IN (SELECT key FROM json_each(:counts)) RETURNING id, fence""",
            {"now": now_ms, "counts": json.dumps(counts)},
        )
    }
    found = list(granted)
    changed = []
    for place in late:
        grant = found[place]
        following[grant.schedule_id] += 1
        fence = following[grant.schedule_id]
        if fence != grant.fence:
            found[place] = grant._replace(fence=fence)
            changed.append({"id": grant.execution_id, "fence": fence})
    if changed:
        database.change_many("UPDATE executions SET fence = :fence WHERE id = :id", changed)
    return tuple(found)
