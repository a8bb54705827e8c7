-- Functions that SQLite has and PostgreSQL lacks, for the statements of `store/sql/`. Each migration runs this file.
-- They lie in the schema `edgecron`, which is searched before PostgreSQL's own.

-- JSON that is nested deeper than 1,000 levels is invalid, as in SQLite: few programs can read it.
CREATE OR REPLACE FUNCTION json_valid(t text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    brackets text;
BEGIN
    -- Most columns: each update of a schedule checks all of them, and an EXCEPTION costs as much as a savepoint.
    IF t IN ('[]', '{}') THEN
        RETURN true;
    END IF;
    BEGIN
        PERFORM t::json;
    EXCEPTION WHEN invalid_text_representation OR untranslatable_character THEN
        RETURN false;
    END;
    IF length(t) <= 2000 THEN
        RETURN true;
    END IF;
    brackets := regexp_replace(
        regexp_replace(t, '"(\\.|[^"\\])*"', '', 'g'), '[^][{}]', '', 'g');
    RETURN length(brackets) <= 2000 OR (
        SELECT max(depth) <= 1000 FROM (
            SELECT sum(CASE WHEN c IN ('[', '{') THEN 1 ELSE -1 END) OVER (ORDER BY o) AS depth
            FROM string_to_table(brackets, NULL) WITH ORDINALITY AS b (c, o)) AS depths);
END $$;
CREATE OR REPLACE FUNCTION utc_text(ms bigint) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT to_char(to_timestamp(ms / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;
CREATE OR REPLACE FUNCTION server_ms() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;

CREATE OR REPLACE FUNCTION iif(boolean, anycompatible, anycompatible) RETURNS anycompatible
    LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN $1 THEN $2 ELSE $3 END $$;
CREATE OR REPLACE FUNCTION iif(bigint, anycompatible, anycompatible) RETURNS anycompatible
    LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN $1 <> 0 THEN $2 ELSE $3 END $$;

-- NULL if any value is NULL, as in SQLite; `greatest` skips NULL.
CREATE OR REPLACE FUNCTION max(bigint, bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN $1 IS NOT NULL AND $2 IS NOT NULL THEN greatest($1, $2) END
$$;
CREATE OR REPLACE FUNCTION min(bigint, bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN $1 IS NOT NULL AND $2 IS NOT NULL THEN least($1, $2) END
$$;
CREATE OR REPLACE FUNCTION max(bigint, bigint, bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT max(max($1, $2), $3)
$$;
CREATE OR REPLACE FUNCTION min(bigint, bigint, bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT min(min($1, $2), $3)
$$;

CREATE OR REPLACE FUNCTION instr(text, text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT position($2 IN $1)::bigint
$$;
CREATE OR REPLACE FUNCTION substr(text, bigint, bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT pg_catalog.substr($1, $2::int, $3::int)
$$;
CREATE OR REPLACE FUNCTION casefold(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT lower($1 COLLATE pg_catalog."und-x-icu")
$$;
-- 0 for a text that is not an integer, as in SQLite.
CREATE OR REPLACE FUNCTION to_integer(text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN $1 ~ '^-?[0-9]{1,18}$' THEN $1::bigint WHEN $1 IS NOT NULL THEN 0 END
$$;
CREATE OR REPLACE FUNCTION hex(bytea) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT upper(encode($1, 'hex'))
$$;
CREATE OR REPLACE FUNCTION zeroblob(bigint) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT decode(repeat('00', $1::int), 'hex')
$$;
CREATE OR REPLACE FUNCTION randomblob(bigint) RETURNS bytea LANGUAGE sql VOLATILE AS $$
    SELECT pg_catalog.substr(
        decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'), 1, $1::int)
$$;
CREATE OR REPLACE FUNCTION group_concat_step(text, text, text) RETURNS text
    LANGUAGE sql IMMUTABLE AS $$ SELECT coalesce($1 || $3 || $2, $1, $2) $$;
CREATE OR REPLACE AGGREGATE group_concat(text, text) (sfunc = group_concat_step, stype = text);

CREATE OR REPLACE FUNCTION json_each(t text, OUT key text, OUT value text, OUT type text)
    RETURNS SETOF record LANGUAGE sql IMMUTABLE AS $$
    SELECT (o - 1)::text, v #>> '{}', json_typeof(v)
    FROM json_array_elements(CASE WHEN json_typeof(t::json) = 'array' THEN t::json END)
        WITH ORDINALITY AS a (v, o)
    UNION ALL
    SELECT k, v #>> '{}', json_typeof(v)
    FROM json_each(CASE WHEN json_typeof(t::json) = 'object' THEN t::json END) AS b (k, v)
$$;
CREATE OR REPLACE FUNCTION json_get(text, text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN json_typeof($1::json) = 'object'
        THEN $1::json ->> trim(BOTH '"' FROM regexp_replace($2, '^\$\.', '')) END
$$;
CREATE OR REPLACE FUNCTION json_get(text, integer) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT $1::json ->> $2
$$;
CREATE OR REPLACE FUNCTION json_type(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT json_typeof($1::json)
$$;
-- Without spaces, as SQLite writes it: `LIKE` reads the flags of a run.
CREATE OR REPLACE FUNCTION json_array(anyelement) RETURNS json LANGUAGE sql IMMUTABLE AS $$
    SELECT array_to_json(ARRAY[$1])
$$;
CREATE OR REPLACE FUNCTION json_array(text) RETURNS json LANGUAGE sql IMMUTABLE AS $$
    SELECT array_to_json(ARRAY[$1])
$$;
CREATE OR REPLACE FUNCTION json_array(text, text) RETURNS json LANGUAGE sql IMMUTABLE AS $$
    SELECT array_to_json(ARRAY[$1, $2])
$$;
CREATE OR REPLACE FUNCTION json_array(text, text, text, bigint) RETURNS json
    LANGUAGE sql IMMUTABLE AS $$
    SELECT array_to_json(ARRAY[to_json($1), to_json($2), to_json($3), to_json($4)])
$$;
CREATE OR REPLACE FUNCTION json_set(t text, k text, v bigint) RETURNS text
    LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN jsonb_typeof(t::jsonb) = 'object'
        THEN jsonb_set(t::jsonb, ARRAY[trim(BOTH '"' FROM regexp_replace(k, '^\$\.', ''))],
            to_jsonb(v))::text
        ELSE t END
$$;
CREATE OR REPLACE FUNCTION json_insert(t text, k text, v text) RETURNS text
    LANGUAGE sql IMMUTABLE AS $$
    SELECT array_to_json(ARRAY(SELECT json_array_elements(t::json)) || to_json(v))::text
$$;
-- `[]` and `{}` without rows, as in SQLite; PostgreSQL's own are NULL.
CREATE OR REPLACE FUNCTION array_text(anycompatiblearray) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT array_to_json($1)::text
$$;
CREATE OR REPLACE AGGREGATE json_group_array(anycompatible)
    (sfunc = array_append, stype = anycompatiblearray, finalfunc = array_text, initcond = '{}');
CREATE OR REPLACE FUNCTION json_put(jsonb, text, bigint) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT $1 || jsonb_build_object($2, $3)
$$;
CREATE OR REPLACE FUNCTION json_to_text(jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT $1::text
$$;
CREATE OR REPLACE AGGREGATE json_group_object(text, bigint)
    (sfunc = json_put, stype = jsonb, finalfunc = json_to_text, initcond = '{}');

CREATE OR REPLACE FUNCTION is_offered(offers text, offer text) RETURNS boolean
    LANGUAGE sql IMMUTABLE AS $$ SELECT offers::jsonb ? offer $$;
CREATE OR REPLACE FUNCTION is_flag(boolean, bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT $1 = ($2 <> 0)
$$;
