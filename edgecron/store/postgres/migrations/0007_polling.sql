-- How often an engine looks for changes, if the server's notices do not reach it; NULL: they do.
ALTER TABLE engines ADD COLUMN polls_ms BIGINT;
