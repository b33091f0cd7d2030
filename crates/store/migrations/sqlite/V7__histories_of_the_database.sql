-- See the PostgreSQL migration for what each is for. Here a lane is in the one history there is, or
-- in none: NULL after an older copy of the file was put back.
ALTER TABLE lane ADD COLUMN timeline TEXT CHECK (timeline <> '');

UPDATE lane SET timeline = 'file' WHERE next_nonce IS NOT NULL;

-- The stamp that is also in the file beside the database: they differ if this file is not the one
-- that was served here last.
CREATE TABLE origin (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    place TEXT    NOT NULL
) STRICT;
