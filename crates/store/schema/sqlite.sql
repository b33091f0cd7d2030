-- The schema as the migrations leave it, for reviews. Not run by anything. To write it anew:
-- STILE_UPDATE_SCHEMA=1 cargo test -p stile-store --test schema

CREATE TABLE allocation_key (
    tenant          TEXT    NOT NULL,
    chain_id        INTEGER NOT NULL,
    signer          BLOB    NOT NULL,
    idempotency_key TEXT    NOT NULL CHECK (length(CAST(idempotency_key AS BLOB)) BETWEEN 1 AND 255),
    nonce           INTEGER NOT NULL,
    hold_id         BLOB    NOT NULL,
    created_at      INTEGER NOT NULL,
    PRIMARY KEY (tenant, chain_id, signer, idempotency_key)
) STRICT, WITHOUT ROWID;

CREATE TABLE lane (
    chain_id          INTEGER NOT NULL CHECK (chain_id > 0),
    signer            BLOB    NOT NULL CHECK (length(signer) = 20),
    owner_node        TEXT    NOT NULL,
    owner_incarnation BLOB    NOT NULL CHECK (length(owner_incarnation) = 16),
    owner_url         TEXT,
    fencing_token     INTEGER NOT NULL CHECK (fencing_token > 0),
    acquired_at       INTEGER NOT NULL,
    expires_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    next_nonce        INTEGER CHECK (next_nonce >= 0),
    last_chain_nonce  INTEGER CHECK (last_chain_nonce >= 0),
    paused            TEXT    CHECK (paused <> ''),
    PRIMARY KEY (chain_id, signer)
) STRICT, WITHOUT ROWID;

CREATE TABLE nonce (
    chain_id      INTEGER NOT NULL,
    signer        BLOB    NOT NULL,
    nonce         INTEGER NOT NULL CHECK (nonce >= 0),
    owner_kind    TEXT    NOT NULL CHECK (owner_kind IN ('hold', 'tx', 'filler')),
    owner_id      BLOB    NOT NULL CHECK (length(owner_id) = 16),
    status        TEXT    NOT NULL CHECK (status IN ('HELD', 'CONSUMED', 'RELEASED', 'SUSPECT')),
    locked_until  INTEGER NOT NULL,
    tx_hash       BLOB    CHECK (length(tx_hash) = 32),
    reason        TEXT,
    fencing_token INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    PRIMARY KEY (chain_id, signer, nonce),
    CHECK (tx_hash IS NULL OR status = 'CONSUMED')
) STRICT, WITHOUT ROWID;

CREATE TABLE past_hold (
    hold_id      BLOB    PRIMARY KEY CHECK (length(hold_id) = 16),
    chain_id     INTEGER NOT NULL,
    signer       BLOB    NOT NULL,
    nonce        INTEGER NOT NULL,
    locked_until INTEGER NOT NULL,
    reason       TEXT,
    released_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX nonce_open ON nonce (chain_id, signer, nonce) WHERE status <> 'CONSUMED';

CREATE TRIGGER lane_cursor_falls_only_under_a_new_token BEFORE UPDATE ON lane
    WHEN (NEW.next_nonce < OLD.next_nonce OR (NEW.next_nonce IS NULL AND OLD.next_nonce IS NOT NULL))
         AND NEW.fencing_token = OLD.fencing_token
    BEGIN SELECT RAISE(ABORT, 'lane: the cursor only moves back together with a raised token'); END;

CREATE TRIGGER lane_is_never_deleted BEFORE DELETE ON lane
    BEGIN SELECT RAISE(ABORT, 'lane: a lane row is never deleted'); END;

CREATE TRIGGER lane_new_incarnation_raises_token BEFORE UPDATE ON lane
    WHEN NEW.owner_incarnation <> OLD.owner_incarnation AND NEW.fencing_token <= OLD.fencing_token
    BEGIN SELECT RAISE(ABORT, 'lane: a new incarnation must raise the fencing token'); END;

CREATE TRIGGER lane_token_never_falls BEFORE UPDATE ON lane
    WHEN NEW.fencing_token < OLD.fencing_token
    BEGIN SELECT RAISE(ABORT, 'lane: the fencing token never falls'); END;

CREATE TRIGGER nonce_changes_hands_only_when_released BEFORE UPDATE ON nonce
    WHEN NEW.owner_id <> OLD.owner_id AND OLD.status <> 'RELEASED'
    BEGIN SELECT RAISE(ABORT, 'nonce: only a RELEASED nonce is given out again'); END;

CREATE TRIGGER nonce_consumed_is_absorbing BEFORE UPDATE ON nonce
    WHEN OLD.status = 'CONSUMED' AND (NEW.status <> 'CONSUMED' OR NEW.owner_id <> OLD.owner_id)
    BEGIN SELECT RAISE(ABORT, 'nonce: CONSUMED is absorbing'); END;
