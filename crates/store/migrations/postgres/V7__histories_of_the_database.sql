-- A database that fails over to a standby which had not heard of the last commits, or that is
-- restored from a backup, brings back old tokens and cursors. So each lane remembers the history
-- of the database that it was last held against its chain in, and gives out nothing in another.

-- Which history is being written. It changes with every promotion of a standby and every recovery
-- to a point in time; `pg_control_checkpoint()` would only tell after the next checkpoint. A server
-- that is a standby cannot say, and fails. Volatile, because it may be asked at any moment, and in
-- one expression, so that the planner puts it in place of the call.
CREATE FUNCTION stile_timeline() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)
$$;

-- NULL: to be held against its chain before anything is given out.
ALTER TABLE lane ADD COLUMN timeline text CHECK (timeline <> '');

UPDATE lane SET timeline = stile_timeline() WHERE next_nonce IS NOT NULL;

-- Where these tables live. A dump that is loaded elsewhere brings the old place with it.
CREATE TABLE origin (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    place text    NOT NULL
);

COMMENT ON TABLE origin IS 'The server and the table that the lanes were last known in';
