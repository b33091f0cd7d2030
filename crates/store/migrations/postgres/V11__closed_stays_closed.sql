-- Nodes of the version before run meanwhile, and a key that one of them makes must be seen here or by the
-- trigger: so nobody makes one from here on until this is committed.
LOCK TABLE api_key IN SHARE ROW EXCLUSIVE MODE;

-- Once a key has existed every call needs one, whatever becomes of the keys. The row is made with the
-- first key and never goes away, so that no server takes a database without good keys for a new one.
CREATE TABLE api_closed (
    one   boolean     PRIMARY KEY DEFAULT true CHECK (one),
    since timestamptz NOT NULL
);

COMMENT ON TABLE api_closed IS 'There was an API key once: no server on this database is open to all again';

INSERT INTO api_closed (since) SELECT min(created_at) FROM api_key HAVING count(*) > 0;

CREATE FUNCTION api_key_closes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO api_closed (since) VALUES (NEW.created_at) ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

CREATE TRIGGER api_key_closes AFTER INSERT ON api_key FOR EACH ROW EXECUTE FUNCTION api_key_closes();

CREATE FUNCTION api_closed_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', CASE TG_TABLE_NAME
        WHEN 'api_key' THEN 'API keys are revoked, never removed'
        ELSE 'closed stays closed: there was an API key, and every call needs one'
    END USING ERRCODE = 'check_violation';
END $$;

CREATE TRIGGER api_closed_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON api_closed
    FOR EACH STATEMENT EXECUTE FUNCTION api_closed_refuse();
CREATE TRIGGER api_key_stays BEFORE DELETE OR TRUNCATE ON api_key
    FOR EACH STATEMENT EXECUTE FUNCTION api_closed_refuse();

ALTER TABLE api_key
    -- Where it may be used from: networks in CIDR notation with commas between them; NULL for anywhere.
    ADD COLUMN networks     text CHECK (networks ~ '^[0-9a-f.:/]+(,[0-9a-f.:/]+)*$'),
    -- Written now and then, by whichever node let its owner in.
    ADD COLUMN last_used_at timestamptz,
    -- The key that it was rotated for. It has its name until both are gone, and ends by itself.
    ADD COLUMN replaced_by  uuid REFERENCES api_key DEFERRABLE INITIALLY DEFERRED,
    ADD CONSTRAINT api_key_replaced_ends CHECK (replaced_by IS NULL OR expires_at IS NOT NULL);

DROP INDEX api_key_name;
CREATE UNIQUE INDEX api_key_name ON api_key (name) WHERE revoked_at IS NULL AND replaced_by IS NULL;

CREATE OR REPLACE FUNCTION api_key_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'API key %: %', OLD.key_id, CASE
        WHEN NEW.revoked_at IS DISTINCT FROM OLD.revoked_at THEN 'a revoked key stays revoked'
        WHEN NEW.replaced_by IS DISTINCT FROM OLD.replaced_by THEN 'it is rotated once'
        WHEN NEW.expires_at IS DISTINCT FROM OLD.expires_at THEN 'it never ends later than it was to'
        ELSE 'what it may do never changes'
    END USING ERRCODE = 'check_violation';
END $$;

DROP TRIGGER api_key_rules ON api_key;
CREATE TRIGGER api_key_rules BEFORE UPDATE ON api_key FOR EACH ROW
    WHEN ((OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at)
          OR (OLD.replaced_by IS NOT NULL AND NEW.replaced_by IS DISTINCT FROM OLD.replaced_by)
          OR NEW.hash <> OLD.hash OR NEW.operations <> OLD.operations
          OR NEW.signers IS DISTINCT FROM OLD.signers
          OR NEW.networks IS DISTINCT FROM OLD.networks
          OR (OLD.expires_at IS NOT NULL AND (NEW.expires_at IS NULL OR NEW.expires_at > OLD.expires_at)))
    EXECUTE FUNCTION api_key_refuse();
