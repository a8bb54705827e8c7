-- A run writes fewer pages. Its number needs no table of its own: the newest row is never removed,
-- so that none is given twice. And one index says what is active, which two did.

DROP VIEW executions_view;

CREATE TABLE executions_new (
    id INTEGER PRIMARY KEY,
    schedule_id INTEGER NOT NULL REFERENCES schedules (id),
    revision INTEGER NOT NULL,
    scope_kind TEXT NOT NULL DEFAULT 'global',
    scope_id TEXT NOT NULL DEFAULT '',
    plan_at INTEGER NOT NULL,
    fire_key TEXT NOT NULL DEFAULT '',
    cause TEXT NOT NULL CHECK (cause IN
        ('schedule', 'catch_up', 'manual', 'retry', 'boot', 'after', 'backfill')),
    trigger_text TEXT,
    due_at INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 1 CHECK (attempt >= 1),
    max_attempts INTEGER NOT NULL DEFAULT 1,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL DEFAULT 0,

    status TEXT NOT NULL CHECK (status IN
        ('queued', 'running', 'success', 'failed', 'skipped', 'cancelled', 'interrupted')),
    reason TEXT,
    flags TEXT CHECK (flags IS NULL OR json_valid(flags)),
    waiting_for TEXT,
    wait_until INTEGER,

    queued_at INTEGER,
    claimed_at INTEGER,
    engine_id INTEGER,
    supervisor_id TEXT,
    lease_token TEXT,
    heartbeat_at INTEGER,
    stale_after INTEGER,
    cancel_requested_at INTEGER,
    progress TEXT,

    started_at INTEGER,
    finished_at INTEGER,
    duration_ms INTEGER CHECK (duration_ms >= 0),
    exit_code INTEGER,
    rows_affected INTEGER,
    result TEXT,
    error_code TEXT,
    error_msg TEXT,
    missed_from_at INTEGER,
    missed_to_at INTEGER,
    missed_count INTEGER CHECK (missed_count >= 1),

    UNIQUE (schedule_id, scope_kind, scope_id, plan_at, fire_key, attempt),
    CHECK (attempt <= max_attempts),
    -- A status and its columns go together.
    CHECK (status != 'queued' OR (queued_at IS NOT NULL AND claimed_at IS NULL
        AND lease_token IS NULL AND started_at IS NULL AND finished_at IS NULL)),
    CHECK (status != 'running' OR (claimed_at IS NOT NULL AND lease_token IS NOT NULL
        AND engine_id IS NOT NULL AND finished_at IS NULL AND reason IS NULL)),
    CHECK (status IN ('queued', 'running') OR finished_at IS NOT NULL),
    CHECK (status IN ('queued', 'running', 'success') OR reason IS NOT NULL),
    CHECK (status != 'success' OR (reason IS NULL AND started_at IS NOT NULL)),
    CHECK (status != 'skipped' OR (claimed_at IS NULL AND started_at IS NULL)),
    -- What waits for a condition has a deadline, and waits for nothing once it is decided.
    CHECK ((waiting_for IS NULL) = (wait_until IS NULL)),
    CHECK (waiting_for IS NULL OR status = 'queued'),
    CHECK ((missed_count IS NULL) = (missed_from_at IS NULL)),
    CHECK ((missed_count IS NULL) = (missed_to_at IS NULL)),
    CHECK (missed_count IS NULL OR (status = 'skipped' AND missed_from_at <= missed_to_at))
) STRICT;

INSERT INTO executions_new (
    id, schedule_id, revision, scope_kind, scope_id, plan_at, fire_key, cause, trigger_text,
    due_at, attempt, max_attempts, queue, priority, status, reason, flags, waiting_for,
    wait_until, queued_at, claimed_at, engine_id, supervisor_id, lease_token, heartbeat_at,
    stale_after, cancel_requested_at, progress, started_at, finished_at, duration_ms, exit_code,
    rows_affected, result, error_code, error_msg, missed_from_at, missed_to_at, missed_count
)
SELECT
    id, schedule_id, revision, scope_kind, scope_id, plan_at, fire_key, cause, trigger_text,
    due_at, attempt, max_attempts, queue, priority, status, reason, flags, waiting_for,
    wait_until, queued_at, claimed_at, engine_id, supervisor_id, lease_token, heartbeat_at,
    stale_after, cancel_requested_at, progress, started_at, finished_at, duration_ms, exit_code,
    rows_affected, result, error_code, error_msg, missed_from_at, missed_to_at, missed_count
FROM executions;

DROP TABLE executions;
ALTER TABLE executions_new RENAME TO executions;

CREATE INDEX executions_by_schedule ON executions (schedule_id, id);
CREATE INDEX executions_queued ON executions (queue, waiting_for, priority DESC, due_at, id)
    WHERE status = 'queued';
-- What waits for a condition is woken by it, or by its deadline.
CREATE INDEX executions_owed ON executions (waiting_for) WHERE waiting_for IS NOT NULL;
CREATE INDEX executions_wait_until ON executions (queue, wait_until)
    WHERE wait_until IS NOT NULL;
-- What runs is few, and comes after all that is queued; what is active is looked for by schedule.
CREATE INDEX executions_active
    ON executions (status, schedule_id, scope_kind, scope_id, cause, engine_id)
    WHERE status IN ('queued', 'running');
-- What went otherwise than well is rare, and looked for.
CREATE INDEX executions_unwell ON executions (status, id)
    WHERE status IN ('failed', 'skipped', 'cancelled', 'interrupted');
CREATE INDEX executions_unwell_by_schedule ON executions (schedule_id, status, id)
    WHERE status IN ('failed', 'skipped', 'cancelled', 'interrupted');

-- A terminal row is final; only the newest `skipped` row of a schedule may grow.
CREATE TRIGGER executions_final BEFORE UPDATE ON executions
WHEN OLD.status NOT IN ('queued', 'running') AND (
    OLD.status = 'skipped' AND NEW.status = 'skipped' AND NEW.reason = OLD.reason
    AND NEW.plan_at = OLD.plan_at AND NEW.fire_key = OLD.fire_key
    AND NEW.missed_count > OLD.missed_count AND NEW.missed_to_at > OLD.missed_to_at) IS NOT TRUE
BEGIN
    SELECT RAISE(ABORT, 'a terminal execution does not change');
END;

CREATE VIEW executions_view AS
SELECT e.id, s.name AS schedule, e.scope_kind, e.scope_id,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.plan_at / 1000.0, 'unixepoch') AS plan_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.due_at / 1000.0, 'unixepoch') AS due_at,
    e.fire_key, e.cause, e.attempt, e.max_attempts, e.status, e.reason, e.exit_code,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.started_at / 1000.0, 'unixepoch') AS started_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.finished_at / 1000.0, 'unixepoch') AS finished_at,
    e.duration_ms, e.error_msg,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.missed_from_at / 1000.0, 'unixepoch') AS missed_from_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.missed_to_at / 1000.0, 'unixepoch') AS missed_to_at,
    e.missed_count
FROM executions AS e JOIN schedules AS s ON s.id = e.schedule_id;
