-- The same table as on PostgreSQL; see there for what each column is for.
CREATE TABLE api_key (
    key_id     BLOB    PRIMARY KEY CHECK (length(key_id) = 16),
    name       TEXT    NOT NULL CHECK (length(name) BETWEEN 1 AND 64 AND name NOT GLOB '*[^A-Za-z0-9._-]*'),
    hash       BLOB    NOT NULL UNIQUE CHECK (length(hash) = 32),
    hint       TEXT    NOT NULL CHECK (length(hint) BETWEEN 1 AND 8),
    -- Without the names that there are, nothing may be left of it.
    operations TEXT    NOT NULL CHECK (operations <> '' AND replace(replace(replace(replace(
        ',' || operations, ',read', ''), ',send', ''), ',operate', ''), ',admin', '') = ''),
    signers    BLOB    CHECK (length(signers) > 0 AND length(signers) % 20 = 0),
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    CONSTRAINT api_key_admin_has_all_signers CHECK (signers IS NULL OR instr(operations, 'admin') = 0),
    CONSTRAINT api_key_expires_later CHECK (expires_at > created_at)
) STRICT;

CREATE UNIQUE INDEX api_key_name ON api_key (name) WHERE revoked_at IS NULL;

CREATE TRIGGER api_key_stays_revoked BEFORE UPDATE ON api_key
    WHEN OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS NOT OLD.revoked_at
    BEGIN SELECT RAISE(ABORT, 'API key: a revoked key stays revoked'); END;

CREATE TRIGGER api_key_never_changes BEFORE UPDATE ON api_key
    WHEN NEW.hash <> OLD.hash OR NEW.operations <> OLD.operations OR NEW.signers IS NOT OLD.signers
    BEGIN SELECT RAISE(ABORT, 'API key: what it may do never changes'); END;
