-- Each change of a schedule: what was done, from where, and by which user. `state` is a JSON object
-- of what is not part of a definition (`enabled`, `paused_until`, `next_run_at`, `removed`), each
-- with its value before and after. The definitions are in `schedule_revisions`.
CREATE TABLE schedule_changes (
    schedule_id INTEGER NOT NULL REFERENCES schedules (id) ON DELETE CASCADE,
    revision INTEGER NOT NULL,
    at INTEGER NOT NULL,
    act TEXT NOT NULL CHECK (act IN
        ('add', 'edit', 'pause', 'resume', 'reschedule', 'remove', 'undo', 'part')),
    origin TEXT NOT NULL,
    user TEXT,
    state TEXT CHECK (state IS NULL OR json_valid(state)),
    PRIMARY KEY (schedule_id, revision)
) STRICT, WITHOUT ROWID;

INSERT INTO schedule_changes (schedule_id, revision, at, act, origin)
SELECT schedule_id, revision, at, iif(revision = 1, 'add', 'edit'), origin
FROM schedule_revisions WHERE true;

DROP TRIGGER schedules_switched;
CREATE TRIGGER schedules_switched AFTER UPDATE OF enabled ON schedules
WHEN NEW.revision = OLD.revision AND NEW.deleted_at IS NULL
BEGIN
    UPDATE schedules SET revision = revision + 1,
        updated_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
        next_plan_at = iif(enabled, next_plan_at, NULL),
        next_run_at = iif(enabled, next_run_at, NULL),
        next_source = iif(enabled, next_source, NULL)
    WHERE id = NEW.id;
    INSERT INTO schedule_changes (schedule_id, revision, at, act, origin, state)
    SELECT id, revision, updated_at, iif(enabled, 'resume', 'pause'), 'sql',
        json_object('enabled', json_array(OLD.enabled, enabled))
    FROM schedules WHERE id = NEW.id;
END;
