-- See the PostgreSQL migration for what each is for.
CREATE TABLE api_closed (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    since INTEGER NOT NULL
) STRICT;

INSERT INTO api_closed (one, since) SELECT 1, min(created_at) FROM api_key HAVING count(*) > 0;

CREATE TRIGGER api_key_closes AFTER INSERT ON api_key
    BEGIN INSERT INTO api_closed (one, since) VALUES (1, NEW.created_at) ON CONFLICT DO NOTHING; END;

CREATE TRIGGER api_closed_never_changes BEFORE UPDATE ON api_closed
    BEGIN SELECT RAISE(ABORT, 'closed stays closed: there was an API key, and every call needs one'); END;
CREATE TRIGGER api_closed_stays BEFORE DELETE ON api_closed
    BEGIN SELECT RAISE(ABORT, 'closed stays closed: there was an API key, and every call needs one'); END;
CREATE TRIGGER api_key_stays BEFORE DELETE ON api_key
    BEGIN SELECT RAISE(ABORT, 'API keys are revoked, never removed'); END;

ALTER TABLE api_key ADD COLUMN networks TEXT CHECK (networks <> '' AND networks NOT GLOB '*[^0-9a-f.:/,]*');
ALTER TABLE api_key ADD COLUMN last_used_at INTEGER;
ALTER TABLE api_key ADD COLUMN replaced_by BLOB CHECK (replaced_by IS NULL OR expires_at IS NOT NULL);

DROP INDEX api_key_name;
CREATE UNIQUE INDEX api_key_name ON api_key (name) WHERE revoked_at IS NULL AND replaced_by IS NULL;

CREATE TRIGGER api_key_is_rotated_once BEFORE UPDATE ON api_key
    WHEN OLD.replaced_by IS NOT NULL AND NEW.replaced_by IS NOT OLD.replaced_by
    BEGIN SELECT RAISE(ABORT, 'API key: it is rotated once'); END;

CREATE TRIGGER api_key_never_ends_later BEFORE UPDATE ON api_key
    WHEN OLD.expires_at IS NOT NULL AND (NEW.expires_at IS NULL OR NEW.expires_at > OLD.expires_at)
    BEGIN SELECT RAISE(ABORT, 'API key: it never ends later than it was to'); END;

DROP TRIGGER api_key_never_changes;
CREATE TRIGGER api_key_never_changes BEFORE UPDATE ON api_key
    WHEN NEW.hash <> OLD.hash OR NEW.operations <> OLD.operations OR NEW.signers IS NOT OLD.signers
         OR NEW.networks IS NOT OLD.networks
    BEGIN SELECT RAISE(ABORT, 'API key: what it may do never changes'); END;
