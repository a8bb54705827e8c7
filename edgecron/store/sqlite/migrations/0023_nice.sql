-- The niceness of a command. NULL for that of the engine.
ALTER TABLE schedules ADD COLUMN nice INTEGER;
