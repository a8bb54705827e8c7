-- The machine or label that runs a schedule. `queue` has it too: "command on web1".
ALTER TABLE schedules ADD COLUMN placed_on TEXT NOT NULL DEFAULT 'any';
