"""Metrics for Prometheus, all of them out of the database: whoever is asked gives the same answer.

    scheduler_runs_total{schedule_id,status}      success, failed, cancelled, interrupted
    scheduler_skipped_total{schedule_id}          due times that were left out
    scheduler_last_run_timestamp{schedule_id}     likewise _last_success_, _next_run_
    scheduler_run_duration_seconds                a histogram, of all schedules together
    scheduler_claim_latency_seconds               likewise: from due to started
    scheduler_running, scheduler_queued, scheduler_owed
    scheduler_schedules{state}                    active, paused, broken, vanished
    scheduler_engines_alive, scheduler_engines_stalled
    scheduler_lock_failures_total
    scheduler_database_bytes, scheduler_wal_bytes
    scheduler_build_info{version}

These names are a contract. `schedule_id` is the schedule's name: it is what people write into an
alert, it is unique among the schedules that live, and it stays when schedules are carried to
another database by `export` and `apply`, or are removed and added again (counts then begin anew,
which Prometheus takes for a restart); the number in the database does none of that.

Counters never fall: they are counted with the ends themselves, and outlive retention. Histograms
have a label for the schedule only on request (`per_schedule`): thirty lines for each of a hundred
thousand schedules would help nobody. They are then of the schedules that exist, without the removed
ones. There is then scheduler_claim_lock_failures_total{schedule_id}, too: claims of a schedule that
found the database locked. A claim of several schedules counts for each of them, so that their sum
is not scheduler_lock_failures_total, which counts transactions of any kind.

    families.py   the families of metrics, in slices     writing.py   their text, and its kinds
    reading.py    the families of a database, or out of such a text
"""

from __future__ import annotations

from edgecron.client.metric_text import OPENMETRICS, exposition, exposition_parts
from edgecron.client.metric_values import find_families, read_families

__all__ = ["OPENMETRICS", "exposition", "exposition_parts", "find_families", "read_families"]
