-- A rule without its channel, as JSON: notices are made while its file can't be read. And since when its file is gone.
ALTER TABLE notify_rules ADD COLUMN rule TEXT CHECK (json_valid(rule));
ALTER TABLE notify_rules ADD COLUMN gone_at INTEGER;
