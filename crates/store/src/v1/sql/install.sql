-- The stop-fence: whose each signer is, and a trigger on V1's two tables that refuses to write the rows of
-- a signer that is not V1's any more. Nothing of V1's own is changed.
CREATE TABLE IF NOT EXISTS {schema}.stile_cutover (
    signer   text        PRIMARY KEY,
    -- V1: V1 writes it. FENCED: nobody does, it is being moved. STILE: it has moved.
    state    text        NOT NULL DEFAULT 'V1' CHECK (state IN ('V1', 'FENCED', 'STILE')),
    chain_id bigint,
    address  text,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    report   json
);

-- A writer share-locks the signer's row until it commits, and whoever moves the signer updates that row
-- first: so the move waits for writers that were let through, and those that come later find out, in
-- whatever isolation level they run. It runs with the rights of whoever installed it, so that V1 needs none.
CREATE OR REPLACE FUNCTION {schema}.stile_let_through(who text) RETURNS void LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = {schema}, pg_temp AS $fence$
DECLARE
    stands text;
BEGIN
    IF who IS NULL THEN
        RETURN;
    END IF;
    SELECT c.state INTO stands FROM stile_cutover c WHERE c.signer = who FOR SHARE;
    IF NOT FOUND THEN
        INSERT INTO stile_cutover (signer) VALUES (who) ON CONFLICT DO NOTHING;
        SELECT c.state INTO stands FROM stile_cutover c WHERE c.signer = who FOR SHARE;
    END IF;
    IF stands IS DISTINCT FROM 'V1' THEN
        RAISE EXCEPTION 'signer % has moved to Stile: V1 writes its nonces no more', who
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Send its transactions to Stile. To bring it back: stile export-v1 --signer.';
    END IF;
END $fence$;

CREATE OR REPLACE FUNCTION {schema}.stile_stop_fence() RETURNS trigger LANGUAGE plpgsql AS $fence$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        PERFORM {schema}.stile_let_through(OLD.{signer}::text);
    END IF;
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    IF TG_OP = 'INSERT' OR NEW.{signer} IS DISTINCT FROM OLD.{signer} THEN
        PERFORM {schema}.stile_let_through(NEW.{signer}::text);
    END IF;
    RETURN NEW;
END $fence$;

CREATE OR REPLACE FUNCTION {schema}.stile_stop_truncate() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = {schema}, pg_temp AS $fence$
BEGIN
    IF EXISTS (SELECT FROM stile_cutover c WHERE c.state <> 'V1') THEN
        RAISE EXCEPTION '% has rows of signers that have moved to Stile', TG_TABLE_NAME
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    RETURN NULL;
END $fence$;

CREATE TRIGGER stile_stop_fence BEFORE INSERT OR UPDATE OR DELETE ON {state}
    FOR EACH ROW EXECUTE FUNCTION {schema}.stile_stop_fence();
CREATE TRIGGER stile_stop_fence BEFORE INSERT OR UPDATE OR DELETE ON {allocation}
    FOR EACH ROW EXECUTE FUNCTION {schema}.stile_stop_fence();
CREATE TRIGGER stile_stop_truncate BEFORE TRUNCATE ON {state}
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.stile_stop_truncate();
CREATE TRIGGER stile_stop_truncate BEFORE TRUNCATE ON {allocation}
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.stile_stop_truncate();

-- Signers that V1 knows have their row from the start, so that a writer with an old snapshot finds it.
INSERT INTO {schema}.stile_cutover (signer)
SELECT {signer}::text FROM {state} UNION SELECT {signer}::text FROM {allocation}
ON CONFLICT DO NOTHING;
