-- One call for all new runs of a statement. A claim of 256 runs called each function 256 times, which took as long as
-- writing the rows.

CREATE FUNCTION refuse_lost_leases() RETURNS trigger LANGUAGE plpgsql
SET search_path = edgecron, pg_catalog AS $$
DECLARE
    lost_id bigint := (
        SELECT id FROM engines WHERE (died = 1 OR stopped_at IS NOT NULL)
            AND id IN (SELECT engine_id FROM new_runs WHERE status = 'running') LIMIT 1);
BEGIN
    IF lost_id IS NOT NULL THEN
        RAISE EXCEPTION 'engine % has lost its lease', lost_id USING ERRCODE = 'EC001';
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER executions_leased_new ON executions;
CREATE TRIGGER executions_leased_new AFTER INSERT ON executions
REFERENCING NEW TABLE AS new_runs FOR EACH STATEMENT EXECUTE FUNCTION refuse_lost_leases();

CREATE OR REPLACE FUNCTION note_new_run() RETURNS trigger LANGUAGE plpgsql
SET search_path = edgecron, pg_catalog AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM notify_rules) THEN
        INSERT INTO happenings (at, status, schedule_id, execution_id)
        SELECT coalesce(finished_at, claimed_at), status, schedule_id, id FROM new_runs
        WHERE status = 'skipped' AND reason IN ('misfire', 'condition')
            OR status = 'running' AND EXISTS (SELECT 1 FROM notify_rules WHERE wants_runs = 1)
        ORDER BY id;
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER executions_noted_new ON executions;
CREATE TRIGGER executions_noted_new AFTER INSERT ON executions
REFERENCING NEW TABLE AS new_runs FOR EACH STATEMENT EXECUTE FUNCTION note_new_run();

CREATE OR REPLACE FUNCTION watch_new_run() RETURNS trigger LANGUAGE plpgsql
SET search_path = edgecron, pg_catalog AS $$
BEGIN
    INSERT INTO watches (execution_id, event, at)
    SELECT id, 'late', due_at + least_ms
    FROM new_runs, (SELECT min(late_ms) AS least_ms FROM notify_rules) AS rules
    WHERE least_ms > 0
        AND (status = 'queued' OR status = 'running' AND claimed_at - due_at >= least_ms);
    INSERT INTO watches (execution_id, event, at)
    SELECT id, 'slow', claimed_at + least_ms
    FROM new_runs, (SELECT min(slow_ms) AS least_ms FROM notify_rules) AS rules
    WHERE least_ms > 0 AND status = 'running';
    RETURN NULL;
END $$;
DROP TRIGGER executions_watched_new ON executions;
CREATE TRIGGER executions_watched_new AFTER INSERT ON executions
REFERENCING NEW TABLE AS new_runs FOR EACH STATEMENT EXECUTE FUNCTION watch_new_run();
