-- Notices: marks of the rules, what happened, open troubles, and the outbox. Triggers record what happened in the
-- transaction of the event, whichever program writes it.

-- A rule is in a configuration file, `source`. This is what an engine needs of it, without its channel: no secret.
CREATE TABLE notify_rules (
    name TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    channel TEXT NOT NULL,
    wants_runs INTEGER NOT NULL CHECK (wants_runs IN (0, 1)),
    words TEXT NOT NULL
) STRICT, WITHOUT ROWID;

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

CREATE TRIGGER executions_noted AFTER UPDATE OF status, missed_count ON executions
WHEN EXISTS (SELECT 1 FROM notify_rules) AND (NEW.status IN ('failed', 'interrupted')
    OR NEW.status = 'skipped' AND NEW.reason IN ('misfire', 'condition')
    OR NEW.status = 'success' AND (EXISTS (
        SELECT 1 FROM incidents WHERE schedule_id = NEW.schedule_id) OR EXISTS (
        SELECT 1 FROM happenings WHERE schedule_id = NEW.schedule_id))
    OR NEW.status NOT IN ('queued', 'skipped')
        AND EXISTS (SELECT 1 FROM notify_rules WHERE wants_runs))
BEGIN
    INSERT INTO happenings (at, status, schedule_id, execution_id)
    VALUES (coalesce(NEW.finished_at, NEW.claimed_at), NEW.status, NEW.schedule_id, NEW.id);
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
