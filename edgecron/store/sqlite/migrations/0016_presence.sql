-- When an engine was certainly running, beside its start and its stop: why a time was missed.

-- The last time that it wrote while it was at work.
ALTER TABLE engines ADD COLUMN seen_at INTEGER;
-- 1: it ended without being stopped, and another engine has found that out.
ALTER TABLE engines ADD COLUMN died INTEGER NOT NULL DEFAULT 0 CHECK (died IN (0, 1));
