-- The schema of a database. A new database begins with it. An older one gets the same schema from the scripts in
-- `migrations`; a test compares the two. `*_at` columns are milliseconds since 1970. `migrate.py` adds the trigger
-- `schedules_edited`, which lists the columns of a definition.

CREATE TABLE meta (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    uuid TEXT NOT NULL,
    seed BLOB NOT NULL CHECK (length(seed) = 16),
    trusted_high_at INTEGER,
    tzdata_version TEXT,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    local_timezone TEXT,
    next_prune_at INTEGER,
    duration_counts TEXT NOT NULL DEFAULT '{}'
        CHECK (json_valid(duration_counts)),
    duration_sum_ms INTEGER NOT NULL DEFAULT 0,
    late_counts TEXT NOT NULL DEFAULT '{}'
        CHECK (json_valid(late_counts)),
    late_sum_ms INTEGER NOT NULL DEFAULT 0,
    lock_failures INTEGER NOT NULL DEFAULT 0,
    clock_set_at INTEGER,
    clock_set_by_ms INTEGER
) STRICT;

CREATE TABLE groups (
    name TEXT PRIMARY KEY,
    max_running INTEGER CHECK (max_running >= 1)
) STRICT, WITHOUT ROWID;

CREATE TABLE schedules (
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
    max_late_s REAL CHECK (max_late_s >= 0),
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
    -- `decided_until` from before the clock could not be trusted.
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
    -- Retention has removed rows of plan times up to this one.
    pruned_until INTEGER,
    -- Since when no engine offers this job of a program.
    vanished_at INTEGER,

    -- For metrics: how many runs took at most N milliseconds, and started at most N milliseconds late.
    duration_counts TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(duration_counts)),
    duration_sum_ms INTEGER NOT NULL DEFAULT 0,
    late_counts TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(late_counts)),
    late_sum_ms INTEGER NOT NULL DEFAULT 0,
    done_revision INTEGER,
    removed_state TEXT
        CHECK (removed_state IN ('enabled', 'paused', 'forgotten')),
    repeats_since INTEGER,
    fence INTEGER NOT NULL DEFAULT 0,
    lock_failures INTEGER NOT NULL DEFAULT 0,
    nice INTEGER,
    notify TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(notify)),
    stall_timeout_s REAL CHECK (stall_timeout_s > 0),
    stall_action TEXT NOT NULL DEFAULT 'notice' CHECK (stall_action IN ('notice', 'end')),
    ionice TEXT,
    memory_max TEXT,
    cpu_max TEXT,
    keep_awake INTEGER NOT NULL DEFAULT 0
        CHECK (keep_awake IN (0, 1)),
    wake INTEGER NOT NULL DEFAULT 0 CHECK (wake IN (0, 1)),
    durability TEXT NOT NULL DEFAULT 'full'
        CHECK (durability IN ('full', 'normal', 'volatile')),
    between_times TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(between_times)),
    not_between_times TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(not_between_times)),
    except_days TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(except_days)),
    while_needs TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(while_needs)),
    while_lost TEXT NOT NULL DEFAULT 'end' CHECK (while_lost IN ('end', 'suspend')),
    -- The machine or label that runs it. `queue` has it too: "command on web1".
    placed_on TEXT NOT NULL DEFAULT 'any',

    CHECK ((next_plan_at IS NULL) = (next_run_at IS NULL)),
    CHECK (next_run_at IS NULL OR (deleted_at IS NULL AND trigger_error IS NULL))
) STRICT;
CREATE UNIQUE INDEX schedules_by_name ON schedules (name) WHERE deleted_at IS NULL;
CREATE INDEX schedules_due ON schedules (queue, next_run_at)
    WHERE next_run_at IS NOT NULL AND enabled;
CREATE INDEX schedules_paused ON schedules (queue, paused_until) WHERE paused_until IS NOT NULL;
CREATE INDEX schedules_boot ON schedules (queue, boot_decided)
    WHERE on_boot AND enabled AND deleted_at IS NULL;
CREATE INDEX schedules_removed ON schedules (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX schedules_of_programs ON schedules (queue)
    WHERE queue != 'command' AND deleted_at IS NULL;
CREATE INDEX schedules_without_time ON schedules (id)
    WHERE next_run_at IS NULL AND enabled AND deleted_at IS NULL AND trigger_error IS NULL
        AND done_revision IS NOT revision;
CREATE INDEX schedules_broken ON schedules (id)
    WHERE trigger_error IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX schedules_vanished ON schedules (queue, id)
    WHERE vanished_at IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX schedules_of_priority ON schedules (queue, next_run_at)
    WHERE priority <> 0 AND next_run_at IS NOT NULL;
CREATE INDEX schedules_waking ON schedules (next_run_at) WHERE wake AND next_run_at IS NOT NULL;
CREATE INDEX schedules_with_calendars ON schedules (id)
    WHERE instr(except_days, ' = ') AND deleted_at IS NULL;

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

CREATE TABLE schedule_scopes (
    schedule_id INTEGER NOT NULL REFERENCES schedules (id) ON DELETE CASCADE,
    scope_kind TEXT NOT NULL,
    scope_id TEXT NOT NULL,
    PRIMARY KEY (schedule_id, scope_kind, scope_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE schedule_upstreams (
    schedule_id INTEGER NOT NULL REFERENCES schedules (id) ON DELETE CASCADE,
    upstream TEXT NOT NULL,
    ends TEXT NOT NULL CHECK (ends IN ('success', 'failure', 'any')),
    PRIMARY KEY (schedule_id, upstream)
) STRICT, WITHOUT ROWID;
CREATE INDEX schedule_upstreams_by_name ON schedule_upstreams (upstream, schedule_id);

CREATE TABLE schedule_revisions (
    schedule_id INTEGER NOT NULL REFERENCES schedules (id) ON DELETE CASCADE,
    revision INTEGER NOT NULL,
    at INTEGER NOT NULL,
    origin TEXT NOT NULL,
    snapshot TEXT NOT NULL CHECK (json_valid(snapshot)),
    known_until INTEGER,
    PRIMARY KEY (schedule_id, revision)
) STRICT, WITHOUT ROWID;
CREATE INDEX schedule_revisions_changed ON schedule_revisions (schedule_id) WHERE revision > 1;

-- `state`: what is not part of a definition, before and after.
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

CREATE TABLE executions (
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
    payload TEXT,
    fence INTEGER,
    timeout_s REAL CHECK (timeout_s > 0),

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
    -- A run that waits for a condition has a deadline, and no longer waits when it is decided.
    CHECK ((waiting_for IS NULL) = (wait_until IS NULL)),
    CHECK (waiting_for IS NULL OR status = 'queued'),
    CHECK ((missed_count IS NULL) = (missed_from_at IS NULL)),
    CHECK ((missed_count IS NULL) = (missed_to_at IS NULL)),
    CHECK (missed_count IS NULL OR (status = 'skipped' AND missed_from_at <= missed_to_at))
) STRICT;
CREATE INDEX executions_by_schedule ON executions (schedule_id, id);
CREATE INDEX executions_queued ON executions (queue, waiting_for, priority DESC, due_at, id)
    WHERE status = 'queued';
CREATE INDEX executions_owed ON executions (waiting_for) WHERE waiting_for IS NOT NULL;
CREATE INDEX executions_wait_until ON executions (queue, wait_until)
    WHERE wait_until IS NOT NULL;
CREATE INDEX executions_active
    ON executions (status, schedule_id, scope_kind, scope_id, cause, engine_id, due_at, queued_at)
    WHERE status IN ('queued', 'running');
-- The key of a run by hand: 32 hexadecimal digits behind `manual:`.
CREATE UNIQUE INDEX executions_keyed ON executions (schedule_id, fire_key, scope_kind, scope_id)
    WHERE cause = 'manual' AND length(fire_key) = 39;
-- Not `IN`, which makes a table of the four words for each row that is inserted or updated.
CREATE INDEX executions_unwell ON executions (status, id)
    WHERE status = 'failed' OR status = 'skipped' OR status = 'cancelled' OR status = 'interrupted';
CREATE INDEX executions_unwell_by_schedule ON executions (schedule_id, status, id)
    WHERE status = 'failed' OR status = 'skipped' OR status = 'cancelled' OR status = 'interrupted';

CREATE TRIGGER executions_final BEFORE UPDATE ON executions
WHEN OLD.status NOT IN ('queued', 'running') AND (
    OLD.status = 'skipped' AND NEW.status = 'skipped' AND NEW.reason = OLD.reason
    AND NEW.plan_at = OLD.plan_at AND NEW.fire_key = OLD.fire_key
    AND NEW.missed_count > OLD.missed_count AND NEW.missed_to_at > OLD.missed_to_at) IS NOT TRUE
BEGIN
    SELECT RAISE(ABORT, 'a terminal execution does not change');
END;

CREATE TABLE outputs (
    execution_id INTEGER PRIMARY KEY REFERENCES executions (id) ON DELETE CASCADE,
    encoding TEXT NOT NULL CHECK (encoding IN ('raw', 'zlib')),
    chunks BLOB NOT NULL,
    stdout_bytes INTEGER NOT NULL CHECK (stdout_bytes >= 0),
    stderr_bytes INTEGER NOT NULL CHECK (stderr_bytes >= 0),
    dropped_bytes INTEGER NOT NULL CHECK (dropped_bytes >= 0),
    dropped_after INTEGER NOT NULL CHECK (dropped_after >= 0),
    removed_at INTEGER
) STRICT;

CREATE TABLE state (
    schedule_id INTEGER NOT NULL REFERENCES schedules (id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    value TEXT NOT NULL CHECK (json_valid(value)),
    PRIMARY KEY (schedule_id, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE engines (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    pid INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    queues TEXT NOT NULL CHECK (json_valid(queues)),
    version TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    stopped_at INTEGER,
    supervisor_id TEXT,
    program TEXT,
    offers TEXT CHECK (offers IS NULL OR json_valid(offers)),
    seen_at INTEGER,
    died INTEGER NOT NULL DEFAULT 0 CHECK (died IN (0, 1)),
    max_running INTEGER,
    former_queues TEXT
        CHECK (former_queues IS NULL OR json_valid(former_queues)),
    local_timezone TEXT,
    began_boottime_ms INTEGER,
    untrusted_since_ms INTEGER,
    untrusted_until_ms INTEGER,
    runs_from_id INTEGER,
    written_bytes INTEGER,
    written_at INTEGER,
    -- Since when it takes nothing new, until somebody resumes it.
    drained_at INTEGER
) STRICT;

CREATE TABLE pending_apply (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    origin TEXT NOT NULL,
    decided_at INTEGER NOT NULL,
    steps TEXT NOT NULL CHECK (json_valid(steps))
) STRICT;

CREATE TABLE imported_entries (
    schedule_id INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    imprint TEXT NOT NULL CHECK (json_valid(imprint))
) STRICT;

-- A rule is in a configuration file, `source`. This is what an engine needs of it, without its channel: no secret.
-- `rule` is all of it as JSON. `gone_at` is since when the file is gone.
CREATE TABLE notify_rules (
    name TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    channel TEXT NOT NULL,
    wants_runs INTEGER NOT NULL CHECK (wants_runs IN (0, 1)),
    words TEXT NOT NULL,
    late_ms INTEGER CHECK (late_ms >= 1),
    slow_ms INTEGER CHECK (slow_ms >= 1),
    beat_ms INTEGER CHECK (beat_ms >= 1000),
    rule TEXT CHECK (json_valid(rule)),
    gone_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE watches (
    execution_id INTEGER NOT NULL,
    event TEXT NOT NULL CHECK (event IN ('late', 'slow')),
    at INTEGER NOT NULL,
    PRIMARY KEY (execution_id, event)
) STRICT, WITHOUT ROWID;
CREATE INDEX watches_due ON watches (at);

CREATE TABLE happenings (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    status TEXT NOT NULL,
    schedule_id INTEGER,
    execution_id INTEGER,
    engine_id INTEGER
) STRICT;
CREATE INDEX happenings_by_schedule ON happenings (schedule_id);

CREATE TABLE incidents (
    schedule_id INTEGER NOT NULL,
    rule TEXT NOT NULL,
    event TEXT NOT NULL,
    since_at INTEGER NOT NULL,
    count INTEGER NOT NULL,
    noticed_at INTEGER,
    remind_at INTEGER,
    execution_id INTEGER,
    PRIMARY KEY (schedule_id, rule, event)
) STRICT, WITHOUT ROWID;
CREATE INDEX incidents_to_remind ON incidents (remind_at) WHERE remind_at IS NOT NULL;

CREATE TABLE notices (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    rule TEXT NOT NULL,
    event TEXT NOT NULL,
    at INTEGER NOT NULL,
    schedule_id INTEGER,
    execution_id INTEGER,
    engine_id INTEGER,
    is_reminder INTEGER NOT NULL DEFAULT 0 CHECK (is_reminder IN (0, 1)),
    detail TEXT NOT NULL CHECK (json_valid(detail)),
    status TEXT NOT NULL CHECK (status IN ('waiting', 'held', 'sent', 'given_up')),
    due_at INTEGER,
    tries INTEGER NOT NULL DEFAULT 0,
    sent_at INTEGER,
    message TEXT,
    error TEXT,
    CHECK ((due_at IS NOT NULL) = (status IN ('waiting', 'held'))),
    CHECK ((sent_at IS NOT NULL) = (status = 'sent'))
) STRICT;
CREATE INDEX notices_due ON notices (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX notices_sent ON notices (rule, sent_at) WHERE sent_at IS NOT NULL;
CREATE INDEX notices_by_rule ON notices (rule);
CREATE INDEX notices_of_stalled ON notices (at) WHERE event = 'engine_stalled';

CREATE TRIGGER executions_noted AFTER UPDATE OF status, missed_count ON executions
WHEN EXISTS (SELECT 1 FROM notify_rules) AND (NEW.status IN ('failed', 'interrupted')
    OR NEW.status = 'skipped' AND NEW.reason IN ('misfire', 'condition')
    OR NEW.status = 'success' AND (NEW.flags LIKE '%"stalled"%' OR EXISTS (
        SELECT 1 FROM incidents WHERE schedule_id = NEW.schedule_id) OR EXISTS (
        SELECT 1 FROM happenings WHERE schedule_id = NEW.schedule_id))
    OR (NEW.status NOT IN ('queued', 'skipped') OR NEW.reason = 'declined')
        AND EXISTS (SELECT 1 FROM notify_rules WHERE wants_runs))
BEGIN
    INSERT INTO happenings (at, status, schedule_id, execution_id)
    VALUES (coalesce(NEW.finished_at, NEW.claimed_at),
        iif(NEW.reason = 'declined', 'declined', NEW.status), NEW.schedule_id, NEW.id);
END;

CREATE TRIGGER executions_noted_new AFTER INSERT ON executions
WHEN NEW.status IN ('skipped', 'running') AND EXISTS (SELECT 1 FROM notify_rules)
    AND (NEW.reason IN ('misfire', 'condition')
        OR NEW.status = 'running' AND EXISTS (SELECT 1 FROM notify_rules WHERE wants_runs))
BEGIN
    INSERT INTO happenings (at, status, schedule_id, execution_id)
    VALUES (coalesce(NEW.finished_at, NEW.claimed_at), NEW.status, NEW.schedule_id, NEW.id);
END;

CREATE TRIGGER engines_noted AFTER UPDATE OF stopped_at ON engines
WHEN NEW.stopped_at IS NOT NULL AND OLD.stopped_at IS NULL
    AND (OLD.queues != '[]' OR NEW.seen_at IS NOT NULL) AND EXISTS (SELECT 1 FROM notify_rules)
BEGIN
    INSERT INTO happenings (at, status, engine_id)
    VALUES (NEW.stopped_at, iif(NEW.died, 'died', 'stopped'), NEW.id);
END;

CREATE TRIGGER executions_watched_new AFTER INSERT ON executions
WHEN NEW.status IN ('queued', 'running')
    AND EXISTS (SELECT 1 FROM notify_rules WHERE late_ms > 0 OR slow_ms > 0)
BEGIN
    INSERT INTO watches (execution_id, event, at)
    SELECT NEW.id, 'late', NEW.due_at + least_ms
    FROM (SELECT min(late_ms) AS least_ms FROM notify_rules)
    WHERE least_ms > 0 AND (NEW.status = 'queued' OR NEW.claimed_at - NEW.due_at >= least_ms);
    INSERT INTO watches (execution_id, event, at)
    SELECT NEW.id, 'slow', NEW.claimed_at + least_ms
    FROM (SELECT min(slow_ms) AS least_ms FROM notify_rules)
    WHERE least_ms > 0 AND NEW.status = 'running';
END;

CREATE TRIGGER executions_watched AFTER UPDATE OF status ON executions
WHEN NEW.status != OLD.status
    AND EXISTS (SELECT 1 FROM notify_rules WHERE late_ms > 0 OR slow_ms > 0)
BEGIN
    DELETE FROM watches WHERE execution_id = NEW.id AND (NEW.status = 'queued' AND event = 'slow'
        OR at > coalesce(NEW.finished_at, NEW.claimed_at));
    INSERT INTO watches (execution_id, event, at)
    SELECT NEW.id, 'late', NEW.due_at + least_ms
    FROM (SELECT min(late_ms) AS least_ms FROM notify_rules)
    WHERE least_ms > 0 AND NEW.status = 'queued'
    ON CONFLICT (execution_id, event) DO NOTHING;
    INSERT INTO watches (execution_id, event, at)
    SELECT NEW.id, 'slow', NEW.claimed_at + least_ms
    FROM (SELECT min(slow_ms) AS least_ms FROM notify_rules)
    WHERE least_ms > 0 AND NEW.status = 'running';
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
    e.status, e.reason, e.exit_code, e.error_code, e.error_msg, e.result, e.rows_affected,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.started_at / 1000.0, 'unixepoch') AS started_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.finished_at / 1000.0, 'unixepoch') AS finished_at,
    e.duration_ms, e.engine_id, e.fence,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.stale_after / 1000.0, 'unixepoch') AS stale_after,
    e.flags, e.progress, e.waiting_for,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.wait_until / 1000.0, 'unixepoch') AS wait_until,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.missed_from_at / 1000.0, 'unixepoch') AS missed_from_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.missed_to_at / 1000.0, 'unixepoch') AS missed_to_at,
    e.missed_count
FROM executions AS e JOIN schedules AS s ON s.id = e.schedule_id;
