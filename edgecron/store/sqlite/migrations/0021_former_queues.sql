-- The queues that an engine took until it was told to stop: why a time of one of them was missed.
ALTER TABLE engines ADD COLUMN former_queues TEXT
    CHECK (former_queues IS NULL OR json_valid(former_queues));

-- Whether an engine of a program took commands too was not recorded before.
UPDATE engines
SET former_queues = iif(program IS NULL, json_array('command'), json_array(program, 'command'))
WHERE queues = '[]' AND seen_at IS NOT NULL;
