-- Engines learn of a write by the count of changes and its notice. Other programs write neither, so their edits
-- were seen late. These triggers run at the end of a transaction: the count is locked only briefly.

CREATE FUNCTION note_foreign_write() RETURNS trigger LANGUAGE plpgsql
SET search_path = edgecron, pg_catalog AS $$
DECLARE
    own_id text := pg_current_xact_id()::text;
BEGIN
    IF coalesce(current_setting('edgecron.noted', true), '') <> own_id THEN
        PERFORM set_config('edgecron.noted', own_id, true);
        UPDATE versions SET changes = changes + 1;
        NOTIFY edgecron;
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER schedules_foreign AFTER INSERT OR UPDATE OR DELETE ON schedules
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (current_setting('application_name') <> 'edgecron') EXECUTE FUNCTION note_foreign_write();
CREATE CONSTRAINT TRIGGER executions_foreign AFTER INSERT OR UPDATE OR DELETE ON executions
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (current_setting('application_name') <> 'edgecron') EXECUTE FUNCTION note_foreign_write();
