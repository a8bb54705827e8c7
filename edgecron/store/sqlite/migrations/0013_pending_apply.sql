-- An apply of many schedules is decided by this row and then carried out in slices. Whoever comes
-- next finishes it if its process is gone.
CREATE TABLE pending_apply (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    origin TEXT NOT NULL,
    decided_at INTEGER NOT NULL,
    steps TEXT NOT NULL CHECK (json_valid(steps))
) STRICT;
