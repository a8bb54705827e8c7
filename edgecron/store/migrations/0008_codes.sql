-- What the code of a program declares, as a hash: of each engine, and of who had the last say.
ALTER TABLE engines ADD COLUMN code TEXT;

CREATE TABLE programs (
    queue TEXT PRIMARY KEY,
    code TEXT NOT NULL
) STRICT, WITHOUT ROWID;
