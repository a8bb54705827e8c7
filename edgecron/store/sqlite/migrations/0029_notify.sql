-- The rules for notices that a schedule names itself; ["off"] for no notices.
ALTER TABLE schedules ADD COLUMN notify TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(notify));
