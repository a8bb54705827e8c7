-- Schedules of another than the normal priority are rare. They are found without a look at the others.
CREATE INDEX schedules_of_priority ON schedules (queue, next_run_at)
    WHERE priority <> 0 AND next_run_at IS NOT NULL;
