-- Why a time was missed if an engine could not trust its clock, and when an engine was last seen.

-- By the time since the engine's boot, which no setting of the clock changes.
ALTER TABLE engines ADD COLUMN began_boottime_ms INTEGER;
-- Since when the engine does not trust the clock; until when, if it was stopped meanwhile.
ALTER TABLE engines ADD COLUMN untrusted_since_ms INTEGER;
ALTER TABLE engines ADD COLUMN untrusted_until_ms INTEGER;
-- No run that the engine claimed or ended after `seen_at` has a lower id.
ALTER TABLE engines ADD COLUMN runs_from_id INTEGER;
