-- Broken and vanished schedules are rare: they are counted and named without a look at the others.
CREATE INDEX schedules_broken ON schedules (id)
    WHERE trigger_error IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX schedules_vanished ON schedules (queue, id)
    WHERE vanished_at IS NOT NULL AND deleted_at IS NULL;
