-- An engine without such a schedule looks for none.
CREATE INDEX schedules_with_calendars ON schedules (id)
    WHERE instr(except_days, ' = ') AND deleted_at IS NULL;
