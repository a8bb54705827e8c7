-- A person's psql does not search our schema: an edit by SQL from there runs our triggers all the same.

DO $$
DECLARE one regprocedure;
BEGIN
    FOR one IN SELECT p.oid::regprocedure FROM pg_proc AS p
        WHERE p.pronamespace = 'edgecron'::regnamespace AND p.prorettype = 'trigger'::regtype
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = edgecron, pg_catalog', one);
    END LOOP;
END $$;
