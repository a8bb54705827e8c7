-- What retention has removed, and when it comes again.

-- No plan time at or below it can be told by the rows that are left: some were removed.
ALTER TABLE schedules ADD COLUMN pruned_until INTEGER;
-- When it was taken out of the row, of which the counts of bytes stay.
ALTER TABLE outputs ADD COLUMN removed_at INTEGER;
-- Before it, no other engine begins to remove anything.
ALTER TABLE meta ADD COLUMN next_prune_at INTEGER;

-- Few are removed, and the table is wide.
CREATE INDEX schedules_removed ON schedules (deleted_at) WHERE deleted_at IS NOT NULL;
