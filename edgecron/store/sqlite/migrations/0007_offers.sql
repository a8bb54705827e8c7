-- What nobody runs of a program is what none of its engines offers, and no queue of its own.

-- The queue of an engine's program, and the jobs of it that it can run; NULL is all in its queues.
ALTER TABLE engines ADD COLUMN program TEXT;
ALTER TABLE engines ADD COLUMN offers TEXT CHECK (offers IS NULL OR json_valid(offers));
-- Since when no engine that lives, nor the one that started last, offers it.
ALTER TABLE schedules ADD COLUMN vanished_at INTEGER;

-- Those of programs are few, and looked at whenever one of their engines comes or goes.
CREATE INDEX schedules_of_programs ON schedules (queue)
    WHERE queue != 'command' AND deleted_at IS NULL;

-- Until now such a schedule was put into a queue of its own.
UPDATE schedule_revisions
SET snapshot = json_set(snapshot, '$.queue', replace(snapshot ->> '$.queue', ':vanished', ''))
WHERE schedule_id IN (SELECT id FROM schedules WHERE queue GLOB 'py:*:vanished')
    AND snapshot ->> '$.queue' GLOB 'py:*:vanished';
UPDATE executions SET queue = replace(queue, ':vanished', '')
WHERE status IN ('queued', 'running') AND queue GLOB 'py:*:vanished';
UPDATE schedules SET vanished_at = updated_at, queue = replace(queue, ':vanished', '')
WHERE queue GLOB 'py:*:vanished';
