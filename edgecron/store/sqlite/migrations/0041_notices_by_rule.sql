-- Find the notices of a rule, and of stalled engines, without reading all others.
CREATE INDEX notices_by_rule ON notices (rule);
CREATE INDEX notices_of_stalled ON notices (at) WHERE event = 'engine_stalled';
