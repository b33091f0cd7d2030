-- One transaction with a successor, one owner of a lane while it is accepted for, one history per place
-- in the stream, and tables that are known again when others were put in their place.

-- A transaction that was made anew is never sent again: the two could both be executed. It is opened
-- again only if the other one was withdrawn before it had a nonce, which is for good. Only the function
-- looks for that; most updates never call it.
CREATE OR REPLACE FUNCTION tx_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    why text;
BEGIN
    why := CASE
        WHEN NEW.nonce IS DISTINCT FROM OLD.nonce AND OLD.nonce IS NOT NULL THEN 'a bound nonce never changes'
        WHEN NEW.events < OLD.events THEN 'its history never gets shorter'
        WHEN NEW.chain_id <> OLD.chain_id OR NEW.signer <> OLD.signer THEN 'it stays on its lane'
        WHEN NOT EXISTS (SELECT FROM tx s
                         WHERE s.tx_id = OLD.replaced_by AND s.state = 'FAILED' AND s.nonce IS NULL)
            THEN 'it has a successor and is never sent again'
    END;
    IF why IS NULL THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'transaction %: %', OLD.tx_id, why USING ERRCODE = 'check_violation';
END $$;

DROP TRIGGER tx_rules ON tx;
CREATE TRIGGER tx_rules BEFORE UPDATE ON tx FOR EACH ROW
    WHEN ((OLD.nonce IS NOT NULL AND NEW.nonce IS DISTINCT FROM OLD.nonce)
          OR NEW.events < OLD.events
          OR NEW.chain_id <> OLD.chain_id OR NEW.signer <> OLD.signer
          OR (OLD.replaced_by IS NOT NULL AND OLD.state = 'FAILED' AND NEW.state <> 'FAILED'))
    EXECUTE FUNCTION tx_refuse();

-- Acceptance needs no lease, so the lane's row does not keep it apart from a change of owner. This lock
-- does: acceptances share it, and whoever changes the rule has it alone until the commit. It is a lock
-- without a row, because a shared row lock is written to the row.
CREATE FUNCTION stile_ownership_lock() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT hashtextextended('stile ownership of lanes', 0)
$$;

CREATE FUNCTION rollout_is_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(stile_ownership_lock());
    RETURN NULL;
END $$;

CREATE TRIGGER rollout_change BEFORE UPDATE ON rollout_version FOR EACH STATEMENT
    EXECUTE FUNCTION rollout_is_changed();

-- Those of these lanes that are not Stile's, and why. The lock comes first, and volatile functions see
-- what was committed while they waited.
CREATE FUNCTION stile_lanes_elsewhere(chains bigint[], signers bytea[])
RETURNS TABLE (chain_id bigint, signer bytea, elsewhere text) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(stile_ownership_lock());
    -- Most often nothing was ever said.
    IF EXISTS (SELECT FROM rollout_lane) OR EXISTS (SELECT FROM rollout_share) THEN
        RETURN QUERY
            SELECT e.chain_id, e.signer, e.why
            FROM (SELECT w.chain_id, w.signer, stile_elsewhere(w.chain_id, w.signer) AS why
                  FROM (SELECT DISTINCT * FROM unnest(chains, signers)) AS w (chain_id, signer)
                  OFFSET 0) e
            WHERE e.why IS NOT NULL;
    END IF;
END $$;

-- The histories of this database. Transaction numbers start lower after a failover to a standby that
-- had not heard of everything, and after a restore; so a place in the stream belongs to one of these.
-- A history is named when it is first seen: the timeline alone is given out again when a backup is
-- restored twice.
CREATE TABLE stream_history (
    number   bigint      PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    -- Drawn at random.
    history  bigint      NOT NULL UNIQUE CHECK (history > 0),
    place    text        NOT NULL,
    timeline text        NOT NULL CHECK (timeline <> ''),
    -- All transactions below were over when it was first seen.
    began    bigint      NOT NULL,
    -- All transactions below are part of it for certain: noted now and then, so that whoever comes
    -- from a history that was cut off need not begin anew.
    reached  bigint      NOT NULL,
    noted_at timestamptz NOT NULL,
    UNIQUE (place, timeline)
);

COMMENT ON TABLE stream_history IS 'The histories of this database that places in the stream belong to';

-- The name of the history that is being written; NULL while nobody has named it.
CREATE FUNCTION stile_history() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT h.history
    FROM stream_history h
    WHERE h.timeline = stile_timeline() AND h.place = coalesce((SELECT o.place FROM origin o), '')
$$;

-- Which history is being written, in which database, and in which table of lanes: tables that were
-- dropped and loaded from a dump, and those of a copy of the whole database, are others on the same
-- timeline. Nothing of it is looked up once for a statement that stays prepared: a backup may be loaded
-- over the tables while nodes run.
CREATE FUNCTION stile_timeline(lanes oid) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8) || '/'
        || substring(pg_relation_filepath(lanes) from '([0-9]+)/[^/]*$') || '/' || lanes
$$;

CREATE OR REPLACE FUNCTION stile_timeline() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT stile_timeline(to_regclass('lane'))
$$;

-- The database and the table, without the timeline.
CREATE FUNCTION stile_place() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT substr(stile_timeline(), 10)
$$;

-- Unless they come from a dump that nobody has noticed yet.
UPDATE lane SET timeline = timeline || '/' || stile_place()
WHERE timeline IS NOT NULL
  AND NOT EXISTS (SELECT FROM origin o WHERE split_part(o.place, '/', 2) <> to_regclass('lane')::oid::text);

UPDATE origin SET place = split_part(place, '/', 1) || '/' || stile_place()
WHERE split_part(place, '/', 2) = to_regclass('lane')::oid::text;

ALTER TABLE origin
    -- How often a node found that commits were gone which it had seen.
    ADD COLUMN losses   bigint NOT NULL DEFAULT 0,
    -- The history in which that was found last.
    ADD COLUMN lossy_in text;

-- Why the timelines since another one began, by the server's own record: NULL if the role may not read
-- it, or if it is gone. A recovery that was to end at some point names the point.
CREATE FUNCTION stile_recovered_to(since text) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    file text := 'pg_wal/' || left(stile_timeline(), 8) || '.history';
    why  text;
BEGIN
    SELECT string_agg(split_part(line, E'\t', 3), '; ') INTO why
    FROM regexp_split_to_table(pg_read_file(file, 0, 1000000, true), E'\n') AS line
    WHERE line ~ '^[0-9]+\t' AND split_part(line, E'\t', 3) NOT LIKE 'no recovery target specified%'
      AND split_part(line, E'\t', 1)::bigint >= ('x' || lpad(left(since, 8), 16, '0'))::bit(64)::bigint;
    RETURN why;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;

-- What is emptied and filled from a dump is in the same tables as before, and would not be known for a
-- restored database.
CREATE FUNCTION stile_refuse_truncate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'TRUNCATE of %: Stile would not know that its data were replaced, and could pay twice', TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation',
              HINT = 'To restore a backup, use pg_restore --clean, or load it into an empty database.';
END $$;

CREATE TRIGGER lane_truncate BEFORE TRUNCATE ON lane FOR EACH STATEMENT EXECUTE FUNCTION stile_refuse_truncate();
CREATE TRIGGER nonce_truncate BEFORE TRUNCATE ON nonce FOR EACH STATEMENT EXECUTE FUNCTION stile_refuse_truncate();
CREATE TRIGGER tx_truncate BEFORE TRUNCATE ON tx FOR EACH STATEMENT EXECUTE FUNCTION stile_refuse_truncate();
CREATE TRIGGER attempt_truncate BEFORE TRUNCATE ON attempt FOR EACH STATEMENT EXECUTE FUNCTION stile_refuse_truncate();
CREATE TRIGGER tx_event_truncate BEFORE TRUNCATE ON tx_event FOR EACH STATEMENT EXECUTE FUNCTION stile_refuse_truncate();
CREATE TRIGGER lane_event_truncate BEFORE TRUNCATE ON lane_event FOR EACH STATEMENT EXECUTE FUNCTION stile_refuse_truncate();
CREATE TRIGGER lost_tx_truncate BEFORE TRUNCATE ON lost_tx FOR EACH STATEMENT EXECUTE FUNCTION stile_refuse_truncate();
CREATE TRIGGER origin_truncate BEFORE TRUNCATE ON origin FOR EACH STATEMENT EXECUTE FUNCTION stile_refuse_truncate();
