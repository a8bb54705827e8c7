-- The windows in which a schedule can start runs and can't, and the days on which it starts none.
ALTER TABLE schedules ADD COLUMN between_times TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(between_times));
ALTER TABLE schedules ADD COLUMN not_between_times TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(not_between_times));
ALTER TABLE schedules ADD COLUMN except_days TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(except_days));
