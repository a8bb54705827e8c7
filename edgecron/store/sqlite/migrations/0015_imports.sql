-- Which crontab line each imported schedule came from. The row stays when the schedule is removed,
-- so that a second import does not bring it back. `imprint` holds hashes instead of commands and
-- variables, so that nothing secret outlives the schedule.
CREATE TABLE imported_entries (
    schedule_id INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    imprint TEXT NOT NULL CHECK (json_valid(imprint))
) STRICT;
