-- Who may call. A row is never deleted: what was revoked stays on record.
CREATE TABLE api_key (
    key_id     uuid        PRIMARY KEY,
    name       text        NOT NULL CHECK (name ~ '^[A-Za-z0-9._-]{1,64}$'),
    -- The SHA-256 of the token. The token itself is kept nowhere.
    hash       bytea       NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    -- The token's first characters, to tell keys apart in lists.
    hint       text        NOT NULL CHECK (octet_length(hint) BETWEEN 1 AND 8),
    -- Names with commas between them.
    operations text        NOT NULL CHECK (operations ~ '^(read|send|operate|admin)(,(read|send|operate|admin))*$'),
    -- The addresses, one behind the other; NULL for all signers.
    signers    bytea       CHECK (octet_length(signers) > 0 AND octet_length(signers) % 20 = 0),
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz,
    CONSTRAINT api_key_admin_has_all_signers CHECK (signers IS NULL OR operations !~ 'admin'),
    CONSTRAINT api_key_expires_later CHECK (expires_at > created_at)
);

COMMENT ON TABLE api_key IS 'Who may call, what for, and for which signers';

-- A name can be given again once the key that had it is revoked.
CREATE UNIQUE INDEX api_key_name ON api_key (name) WHERE revoked_at IS NULL;

CREATE FUNCTION api_key_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'API key %: %', OLD.key_id, CASE
        WHEN OLD.revoked_at IS NOT NULL THEN 'a revoked key stays revoked'
        ELSE 'what it may do never changes'
    END USING ERRCODE = 'check_violation';
END $$;

-- Nodes keep keys in memory: whatever is allowed by one is allowed until it is revoked.
CREATE TRIGGER api_key_rules BEFORE UPDATE ON api_key FOR EACH ROW
    WHEN ((OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at)
          OR NEW.hash <> OLD.hash OR NEW.operations <> OLD.operations
          OR NEW.signers IS DISTINCT FROM OLD.signers)
    EXECUTE FUNCTION api_key_refuse();
