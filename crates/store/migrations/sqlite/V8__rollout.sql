-- See the PostgreSQL migration for what each is for. Here there is one writer at a time, who applies the
-- rule whenever a lane's row is made.
CREATE TABLE rollout_version (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    version INTEGER NOT NULL
) STRICT;

INSERT INTO rollout_version (one, version) VALUES (1, 0);

CREATE TABLE rollout_share (
    chain_id INTEGER PRIMARY KEY CHECK (chain_id > 0),
    percent  INTEGER NOT NULL CHECK (percent BETWEEN 0 AND 100)
) STRICT;

CREATE TABLE rollout_lane (
    chain_id   INTEGER NOT NULL CHECK (chain_id > 0),
    signer     BLOB    NOT NULL CHECK (length(signer) = 20),
    owner      TEXT    NOT NULL CHECK (owner IN ('stile', 'v1', 'stopped')),
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (chain_id, signer)
) STRICT, WITHOUT ROWID;

ALTER TABLE lane ADD COLUMN elsewhere TEXT CHECK (elsewhere IN ('v1', 'stopped', 'share'));
