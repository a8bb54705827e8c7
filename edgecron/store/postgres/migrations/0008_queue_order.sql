-- PostgreSQL does not know that rows without a condition are in the order of the columns behind it, and would sort all of
-- them for each claim: 100,000 queued runs took 0.9 s instead of 0.3 ms.
DROP INDEX executions_queued;
CREATE INDEX executions_queued ON executions (queue, priority DESC, due_at, id)
    WHERE status = 'queued' AND waiting_for IS NULL;
