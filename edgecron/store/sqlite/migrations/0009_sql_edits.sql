-- SQL is an interface: `UPDATE schedules SET enabled = 0` pauses a schedule. Until now a CHECK
-- refused it, and a relaxed CHECK takes a new table. Foreign keys are off meanwhile.

DROP VIEW executions_view;
DROP VIEW schedules_view;

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
    -- `decided_until` before the schedule began to follow a clock that can't be trusted.
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
    -- Retention removed rows of plan times up to this one.
    pruned_until INTEGER,
    -- Since when no engine offers this job of a program.
    vanished_at INTEGER,

    -- What a scrape reads: how many runs took at most so many milliseconds, and started so late.
    duration_counts TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(duration_counts)),
    duration_sum_ms INTEGER NOT NULL DEFAULT 0,
    late_counts TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(late_counts)),
    late_sum_ms INTEGER NOT NULL DEFAULT 0,

    CHECK ((next_plan_at IS NULL) = (next_run_at IS NULL)),
    CHECK (next_run_at IS NULL OR (deleted_at IS NULL AND trigger_error IS NULL))
) STRICT;

INSERT INTO schedules_new (
    id, name, kind, job, payload, stdin, env, env_file, cwd, user, triggers, compiled,
    on_boot, timezone, from_at, until_at, max_runs, after_end_ms, queue, priority,
    group_name, description, catch_up, grace_s, overlap, max_running, timeout_s,
    kill_grace_s, retries, retry_delay_s, retry_factor, retry_max_delay_s, ok_codes,
    on_interrupt, jitter_s, needs, needs_deadline_s, enabled, paused_until, revision,
    next_plan_at, next_run_at, next_source, decided_until, trusted_until, trigger_error,
    boot_decided, planned_count, last_execution_id, last_status, last_run_at,
    last_enqueued_at, last_success_at, last_error, run_count, success_count, failed_count,
    skipped_count, cancelled_count, interrupted_count, created_at, updated_at, deleted_at,
    pruned_until, vanished_at, duration_counts, duration_sum_ms, late_counts, late_sum_ms
)
SELECT
    id, name, kind, job, payload, stdin, env, env_file, cwd, user, triggers, compiled,
    on_boot, timezone, from_at, until_at, max_runs, after_end_ms, queue, priority,
    group_name, description, catch_up, grace_s, overlap, max_running, timeout_s,
    kill_grace_s, retries, retry_delay_s, retry_factor, retry_max_delay_s, ok_codes,
    on_interrupt, jitter_s, needs, needs_deadline_s, enabled, paused_until, revision,
    next_plan_at, next_run_at, next_source, decided_until, trusted_until, trigger_error,
    boot_decided, planned_count, last_execution_id, last_status, last_run_at,
    last_enqueued_at, last_success_at, last_error, run_count, success_count, failed_count,
    skipped_count, cancelled_count, interrupted_count, created_at, updated_at, deleted_at,
    pruned_until, vanished_at, duration_counts, duration_sum_ms, late_counts, late_sum_ms
FROM schedules;

DROP TABLE schedules;
ALTER TABLE schedules_new RENAME TO schedules;

CREATE UNIQUE INDEX schedules_by_name ON schedules (name) WHERE deleted_at IS NULL;
CREATE INDEX schedules_due ON schedules (queue, next_run_at)
    WHERE next_run_at IS NOT NULL AND enabled;
CREATE INDEX schedules_paused ON schedules (queue, paused_until) WHERE paused_until IS NOT NULL;
CREATE INDEX schedules_boot ON schedules (queue, boot_decided)
    WHERE on_boot AND enabled AND deleted_at IS NULL;
CREATE INDEX schedules_removed ON schedules (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX schedules_of_programs ON schedules (queue)
    WHERE queue != 'command' AND deleted_at IS NULL;

-- What edgecron itself does at an edit. Its own edits raise `revision`, and skip both triggers.
-- A pause clears the next time, and raises the revision alone.
CREATE TRIGGER schedules_switched AFTER UPDATE OF enabled ON schedules
WHEN NEW.revision = OLD.revision AND NEW.deleted_at IS NULL
BEGIN
    UPDATE schedules SET revision = revision + 1,
        updated_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
        next_plan_at = iif(enabled, next_plan_at, NULL),
        next_run_at = iif(enabled, next_run_at, NULL),
        next_source = iif(enabled, next_source, NULL)
    WHERE id = NEW.id;
END;

-- A changed definition takes a snapshot too: engines run snapshots.
CREATE TRIGGER schedules_edited AFTER UPDATE OF
    name, kind, job, payload, stdin, env, env_file, cwd, user, triggers, compiled, on_boot,
    timezone, from_at, until_at, max_runs, after_end_ms, queue, priority, group_name,
    description, catch_up, grace_s, overlap, max_running, timeout_s, kill_grace_s, retries,
    retry_delay_s, retry_factor, retry_max_delay_s, ok_codes, on_interrupt, jitter_s, needs,
    needs_deadline_s
ON schedules
WHEN NEW.revision = OLD.revision AND NEW.deleted_at IS NULL
BEGIN
    UPDATE schedules SET revision = revision + 1,
        updated_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
    WHERE id = NEW.id;
    INSERT INTO schedule_revisions (schedule_id, revision, at, origin, snapshot)
    SELECT id, revision, updated_at, 'sql', json_object(
        'name', name, 'kind', kind, 'job', job, 'payload', payload, 'stdin', stdin, 'env',
        env, 'env_file', env_file, 'cwd', cwd, 'user', user, 'triggers', triggers,
        'compiled', compiled, 'on_boot', on_boot, 'timezone', timezone, 'from_at', from_at,
        'until_at', until_at, 'max_runs', max_runs, 'after_end_ms', after_end_ms, 'queue',
        queue, 'priority', priority, 'group_name', group_name, 'description', description,
        'catch_up', catch_up, 'grace_s', grace_s, 'overlap', overlap, 'max_running',
        max_running, 'timeout_s', timeout_s, 'kill_grace_s', kill_grace_s, 'retries',
        retries, 'retry_delay_s', retry_delay_s, 'retry_factor', retry_factor,
        'retry_max_delay_s', retry_max_delay_s, 'ok_codes', ok_codes, 'on_interrupt',
        on_interrupt, 'jitter_s', jitter_s, 'needs', needs, 'needs_deadline_s',
        needs_deadline_s)
    FROM schedules WHERE id = NEW.id;
END;

CREATE VIEW schedules_view AS
SELECT id, name, kind, job, triggers, coalesce(timezone, 'UTC') AS timezone, enabled,
    strftime('%Y-%m-%dT%H:%M:%fZ', paused_until / 1000.0, 'unixepoch') AS paused_until,
    strftime('%Y-%m-%dT%H:%M:%fZ', next_plan_at / 1000.0, 'unixepoch') AS next_plan_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', next_run_at / 1000.0, 'unixepoch') AS next_run_at,
    last_status,
    strftime('%Y-%m-%dT%H:%M:%fZ', last_run_at / 1000.0, 'unixepoch') AS last_run_at,
    run_count, success_count, failed_count, skipped_count, cancelled_count, interrupted_count,
    queue, priority, group_name, description, trigger_error,
    strftime('%Y-%m-%dT%H:%M:%fZ', last_success_at / 1000.0, 'unixepoch') AS last_success_at,
    last_error, revision,
    strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1000.0, 'unixepoch') AS created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', updated_at / 1000.0, 'unixepoch') AS updated_at
FROM schedules WHERE deleted_at IS NULL;

CREATE VIEW executions_view AS
SELECT e.id, s.name AS schedule, e.scope_kind, e.scope_id,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.plan_at / 1000.0, 'unixepoch') AS plan_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.due_at / 1000.0, 'unixepoch') AS due_at,
    e.fire_key, e.cause, e.trigger_text, e.attempt, e.max_attempts, e.queue, e.priority,
    e.status, e.reason, e.exit_code, e.error_code, e.error_msg, e.result,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.started_at / 1000.0, 'unixepoch') AS started_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.finished_at / 1000.0, 'unixepoch') AS finished_at,
    e.duration_ms, e.engine_id, e.flags, e.progress, e.waiting_for,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.wait_until / 1000.0, 'unixepoch') AS wait_until,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.missed_from_at / 1000.0, 'unixepoch') AS missed_from_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.missed_to_at / 1000.0, 'unixepoch') AS missed_to_at,
    e.missed_count
FROM executions AS e JOIN schedules AS s ON s.id = e.schedule_id;
