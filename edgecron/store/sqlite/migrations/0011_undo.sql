-- `undo` restores a removed schedule as it was: enabled or paused. NULL: an older version removed
-- it, and undo restores it paused. forgotten: its words are blank, and nothing can restore it.
ALTER TABLE schedules ADD COLUMN removed_state TEXT
    CHECK (removed_state IN ('enabled', 'paused', 'forgotten'));
