-- The option `grace` is now called `max_late`.
ALTER TABLE schedules RENAME COLUMN grace_s TO max_late_s;
UPDATE schedule_revisions SET snapshot =
    json_remove(json_set(snapshot, '$.max_late_s', snapshot -> '$.grace_s'), '$.grace_s')
WHERE json_type(snapshot, '$.grace_s') IS NOT NULL;
