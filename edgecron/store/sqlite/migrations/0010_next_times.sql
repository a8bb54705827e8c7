-- An enabled schedule without a next time is either done, as of a revision, or its next time is
-- missing (a hand-written change, an older version) and an engine computes it.

ALTER TABLE schedules ADD COLUMN done_revision INTEGER;

-- What is certainly done: it has had its runs, or has only events and instants that are decided.
UPDATE schedules SET done_revision = revision
WHERE next_run_at IS NULL AND enabled AND after_end_ms IS NULL AND (
    planned_count >= max_runs
    OR NOT EXISTS (SELECT 1 FROM json_each(compiled) WHERE type = 'object'
        AND value ->> '$.kind' NOT IN ('after', 'boot')
        AND NOT (value ->> '$.kind' = 'at' AND value ->> '$.at_ms' <= decided_until)));

CREATE INDEX schedules_without_time ON schedules (id)
    WHERE next_run_at IS NULL AND enabled AND deleted_at IS NULL AND trigger_error IS NULL
        AND done_revision IS NOT revision;
