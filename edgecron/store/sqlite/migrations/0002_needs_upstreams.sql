-- What the schedules of version 1 could not say: what they need, whose ends they follow, by which
-- clock they go. New CHECKs and a new NOT NULL take new tables, in the steps of
-- https://www.sqlite.org/lang_altertable.html#otheralter. Foreign keys are off meanwhile.

DROP VIEW executions_view;
DROP VIEW schedules_view;

ALTER TABLE meta ADD COLUMN local_timezone TEXT;
ALTER TABLE engines ADD COLUMN supervisor_id TEXT;

CREATE TABLE schedules_new (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 128),

    kind TEXT NOT NULL CHECK (kind IN ('command', 'shell', 'callable')),
    job TEXT NOT NULL,
    payload TEXT,
    stdin TEXT,
    env TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(env)),
    env_file TEXT,
    cwd TEXT,
    user TEXT,

    -- `compiled` holds the expanded form of each text of `triggers`, in the same order.
    triggers TEXT NOT NULL CHECK (json_valid(triggers)),
    compiled TEXT NOT NULL CHECK (json_valid(compiled)),
    on_boot INTEGER NOT NULL DEFAULT 0 CHECK (on_boot IN (0, 1)),
    timezone TEXT,
    from_at INTEGER,
    until_at INTEGER,
    max_runs INTEGER CHECK (max_runs >= 1),
    after_end_ms INTEGER CHECK (after_end_ms >= 1),

    queue TEXT NOT NULL,
    priority INTEGER NOT NULL DEFAULT 0,
    group_name TEXT REFERENCES groups (name),
    description TEXT,

    catch_up TEXT NOT NULL DEFAULT 'once' CHECK (catch_up IN ('once', 'skip', 'all')),
    grace_s REAL CHECK (grace_s >= 0),
    overlap TEXT NOT NULL DEFAULT 'skip'
        CHECK (overlap IN ('skip', 'queue', 'allow', 'replace')),
    max_running INTEGER CHECK (max_running >= 1),
    timeout_s REAL CHECK (timeout_s > 0),
    kill_grace_s REAL NOT NULL DEFAULT 10 CHECK (kill_grace_s >= 0),
    retries INTEGER NOT NULL DEFAULT 0 CHECK (retries >= 0),
    retry_delay_s REAL NOT NULL DEFAULT 10 CHECK (retry_delay_s >= 0),
    retry_factor REAL NOT NULL DEFAULT 2 CHECK (retry_factor >= 1),
    retry_max_delay_s REAL NOT NULL DEFAULT 3600 CHECK (retry_max_delay_s >= 0),
    ok_codes TEXT NOT NULL DEFAULT '[0]' CHECK (json_valid(ok_codes)),
    on_interrupt TEXT NOT NULL DEFAULT 'leave' CHECK (on_interrupt IN ('leave', 'retry')),
    jitter_s REAL NOT NULL DEFAULT 0 CHECK (jitter_s >= 0),
    needs TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(needs)),
    needs_deadline_s REAL NOT NULL DEFAULT 86400 CHECK (needs_deadline_s >= 0),

    enabled INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
    paused_until INTEGER,
    revision INTEGER NOT NULL DEFAULT 1 CHECK (revision >= 1),
    next_plan_at INTEGER,
    next_run_at INTEGER,
    next_source TEXT,
    decided_until INTEGER NOT NULL,
    -- Where it stood, while the schedule goes by a clock that can't be trusted; else NULL.
    trusted_until INTEGER,
    trigger_error TEXT,
    boot_decided TEXT,
    planned_count INTEGER NOT NULL DEFAULT 0,

    last_execution_id INTEGER,
    last_status TEXT,
    last_run_at INTEGER,
    last_enqueued_at INTEGER,
    last_success_at INTEGER,
    last_error TEXT,
    run_count INTEGER NOT NULL DEFAULT 0,
    success_count INTEGER NOT NULL DEFAULT 0,
    failed_count INTEGER NOT NULL DEFAULT 0,
    skipped_count INTEGER NOT NULL DEFAULT 0,
    cancelled_count INTEGER NOT NULL DEFAULT 0,
    interrupted_count INTEGER NOT NULL DEFAULT 0,

    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,

    CHECK ((next_plan_at IS NULL) = (next_run_at IS NULL)),
    CHECK (next_run_at IS NULL OR (enabled AND deleted_at IS NULL AND trigger_error IS NULL))
) STRICT;

INSERT INTO schedules_new (
    id, name, kind, job, payload, stdin, env, env_file, cwd, user, triggers, compiled,
    on_boot, timezone, from_at, until_at, max_runs, queue, priority, group_name,
    description, catch_up, grace_s, overlap, max_running, timeout_s, kill_grace_s, retries,
    retry_delay_s, retry_factor, retry_max_delay_s, ok_codes, on_interrupt, jitter_s, needs,
    needs_deadline_s, enabled, paused_until, revision, next_plan_at, next_run_at,
    next_source, decided_until, trigger_error, boot_decided, planned_count,
    last_execution_id, last_status, last_run_at, last_enqueued_at, last_success_at,
    last_error, run_count, success_count, failed_count, skipped_count, cancelled_count,
    interrupted_count, created_at, updated_at, deleted_at, after_end_ms
)
SELECT
    id, name, kind, job, payload, stdin, env, env_file, cwd, user, triggers, compiled,
    on_boot, timezone, from_at, until_at, max_runs, queue, priority, group_name,
    description, catch_up, grace_s, overlap, max_running, timeout_s, kill_grace_s, retries,
    retry_delay_s, retry_factor, retry_max_delay_s, ok_codes, on_interrupt, jitter_s, needs,
    coalesce(needs_deadline_s, 86400), enabled, paused_until, revision, next_plan_at,
    next_run_at, next_source, decided_until, trigger_error, boot_decided, planned_count,
    last_execution_id, last_status, last_run_at, last_enqueued_at, last_success_at,
    last_error, run_count, success_count, failed_count, skipped_count, cancelled_count,
    interrupted_count, created_at, updated_at, deleted_at,
    (SELECT min(value ->> '$.interval_ms') FROM json_each(compiled)
        WHERE type = 'object' AND value ->> '$.kind' = 'after_end')
FROM schedules;

DROP TABLE schedules;
ALTER TABLE schedules_new RENAME TO schedules;

CREATE UNIQUE INDEX schedules_by_name ON schedules (name) WHERE deleted_at IS NULL;
CREATE INDEX schedules_due ON schedules (queue, next_run_at) WHERE next_run_at IS NOT NULL;
CREATE INDEX schedules_paused ON schedules (queue, paused_until) WHERE paused_until IS NOT NULL;
CREATE INDEX schedules_boot ON schedules (queue, boot_decided)
    WHERE on_boot AND enabled AND deleted_at IS NULL;

-- Whose ends a schedule follows, by the name that its trigger says.
CREATE TABLE schedule_upstreams (
    schedule_id INTEGER NOT NULL REFERENCES schedules (id) ON DELETE CASCADE,
    upstream TEXT NOT NULL,
    ends TEXT NOT NULL CHECK (ends IN ('success', 'failure', 'any')),
    PRIMARY KEY (schedule_id, upstream)
) STRICT, WITHOUT ROWID;

CREATE INDEX schedule_upstreams_by_name ON schedule_upstreams (upstream, schedule_id);

INSERT OR IGNORE INTO schedule_upstreams (schedule_id, upstream, ends)
SELECT s.id, t.value ->> '$.upstream', t.value ->> '$.on'
FROM schedules AS s, json_each(s.compiled) AS t
WHERE t.type = 'object' AND t.value ->> '$.kind' = 'after';

-- What is decided with a revision is carried out by what it says of all that a schedule says.
UPDATE schedule_revisions SET snapshot = json_insert(snapshot,
    '$.after_end_ms', (
        SELECT min(value ->> '$.interval_ms')
        FROM json_each(iif(json_valid(snapshot ->> '$.compiled'), snapshot ->> '$.compiled', '[]'))
        WHERE type = 'object' AND value ->> '$.kind' = 'after_end'),
    '$.needs', '[]',
    '$.needs_deadline_s', 86400.0);

CREATE TABLE executions_new (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
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

-- Nothing waited for a condition yet.
INSERT INTO executions_new (
    id, schedule_id, revision, scope_kind, scope_id, plan_at, fire_key, cause, trigger_text,
    due_at, attempt, max_attempts, queue, priority, status, reason, flags, queued_at,
    claimed_at, engine_id, supervisor_id, lease_token, heartbeat_at, stale_after,
    cancel_requested_at, progress, started_at, finished_at, duration_ms, exit_code,
    rows_affected, result, error_code, error_msg, missed_from_at, missed_to_at, missed_count
)
SELECT
    id, schedule_id, revision, scope_kind, scope_id, plan_at, fire_key, cause, trigger_text,
    due_at, attempt, max_attempts, queue, priority, status, reason, flags, queued_at,
    claimed_at, engine_id, supervisor_id, lease_token, heartbeat_at, stale_after,
    cancel_requested_at, progress, started_at, finished_at, duration_ms, exit_code,
    rows_affected, result, error_code, error_msg, missed_from_at, missed_to_at, missed_count
FROM executions;

-- A number is never given twice, also where the last rows have been removed.
DELETE FROM sqlite_sequence WHERE name = 'executions_new';
INSERT INTO sqlite_sequence (name, seq)
SELECT 'executions_new', seq FROM sqlite_sequence WHERE name = 'executions';

DROP TABLE executions;
ALTER TABLE executions_new RENAME TO executions;

CREATE INDEX executions_by_schedule ON executions (schedule_id, id);
CREATE INDEX executions_queued ON executions (queue, waiting_for, priority DESC, due_at, id)
    WHERE status = 'queued';
-- What waits for a condition is woken by it, or by its deadline.
CREATE INDEX executions_owed ON executions (waiting_for) WHERE waiting_for IS NOT NULL;
CREATE INDEX executions_wait_until ON executions (queue, wait_until)
    WHERE wait_until IS NOT NULL;
CREATE INDEX executions_running ON executions (engine_id, id) WHERE status = 'running';
CREATE INDEX executions_active ON executions (schedule_id, scope_kind, scope_id, status, cause)
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

CREATE VIEW schedules_view AS
SELECT id, name, kind, job, triggers, coalesce(timezone, 'UTC') AS timezone, enabled,
    strftime('%Y-%m-%dT%H:%M:%fZ', paused_until / 1000.0, 'unixepoch') AS paused_until,
    strftime('%Y-%m-%dT%H:%M:%fZ', next_plan_at / 1000.0, 'unixepoch') AS next_plan_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', next_run_at / 1000.0, 'unixepoch') AS next_run_at,
    last_status,
    strftime('%Y-%m-%dT%H:%M:%fZ', last_run_at / 1000.0, 'unixepoch') AS last_run_at,
    run_count, success_count, failed_count, skipped_count, cancelled_count, interrupted_count
FROM schedules WHERE deleted_at IS NULL;

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
