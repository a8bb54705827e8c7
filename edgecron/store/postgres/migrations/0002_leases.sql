-- Engines of several machines share a database: a lease shows whether an engine is running.
-- Its instants are those of the server's clock.

ALTER TABLE engines ADD COLUMN machine TEXT COLLATE "C";
ALTER TABLE engines ADD COLUMN heartbeat_at BIGINT;
ALTER TABLE engines ADD COLUMN stale_after BIGINT;

-- An engine that others took for dead starts nothing until it has registered again.
CREATE FUNCTION refuse_lost_lease() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM engines WHERE id = NEW.engine_id AND (died = 1 OR stopped_at IS NOT NULL)) THEN
        RAISE EXCEPTION 'engine % has lost its lease', NEW.engine_id USING ERRCODE = 'EC001';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER executions_leased_new BEFORE INSERT ON executions FOR EACH ROW
WHEN (NEW.status = 'running') EXECUTE FUNCTION refuse_lost_lease();
CREATE TRIGGER executions_leased BEFORE UPDATE OF status, engine_id ON executions FOR EACH ROW
WHEN (NEW.status = 'running' AND (OLD.status <> 'running' OR OLD.engine_id <> NEW.engine_id))
EXECUTE FUNCTION refuse_lost_lease();
