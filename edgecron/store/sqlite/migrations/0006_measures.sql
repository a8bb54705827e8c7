-- What a scrape reads of all that ever ended, kept in the row that an end writes anyway: a table
-- of its own would cost each lone run one more page. By the largest value of each step in
-- milliseconds, "more" beyond the last, how many runs took so long, and started so late.
ALTER TABLE schedules ADD COLUMN duration_counts TEXT NOT NULL DEFAULT '{}'
    CHECK (json_valid(duration_counts));
ALTER TABLE schedules ADD COLUMN duration_sum_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE schedules ADD COLUMN late_counts TEXT NOT NULL DEFAULT '{}'
    CHECK (json_valid(late_counts));
ALTER TABLE schedules ADD COLUMN late_sum_ms INTEGER NOT NULL DEFAULT 0;

-- The same of schedules of which retention has left nothing: a counter never falls.
ALTER TABLE meta ADD COLUMN duration_counts TEXT NOT NULL DEFAULT '{}'
    CHECK (json_valid(duration_counts));
ALTER TABLE meta ADD COLUMN duration_sum_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE meta ADD COLUMN late_counts TEXT NOT NULL DEFAULT '{}'
    CHECK (json_valid(late_counts));
ALTER TABLE meta ADD COLUMN late_sum_ms INTEGER NOT NULL DEFAULT 0;
-- Transactions that found another's lock; added to by the next one that writes.
ALTER TABLE meta ADD COLUMN lock_failures INTEGER NOT NULL DEFAULT 0;
