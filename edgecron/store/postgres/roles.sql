-- Two roles for a database of edgecron on a PostgreSQL server. Run this file once as the owner of the tables, after
-- the first `edgecron add`, and again after an upgrade: psql -f roles.sql DATABASE
--
-- edgecron_engine   engines, and everyone who adds or changes schedules
-- edgecron_reader   reads all, also the variables and the stdin of jobs; changes nothing
--
-- Then give a person or a program one of them:
--     CREATE ROLE backup_host LOGIN PASSWORD '...' IN ROLE edgecron_engine;
--
-- Only the owner can upgrade the tables: after an upgrade of edgecron, first run `edgecron status` as the owner.

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['edgecron_engine', 'edgecron_reader'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', name);
        END IF;
    END LOOP;
END $$;

GRANT USAGE ON SCHEMA edgecron TO edgecron_engine, edgecron_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA edgecron TO edgecron_reader;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA edgecron TO edgecron_engine;
