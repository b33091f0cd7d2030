-- The same tables as on PostgreSQL; see there for what each is for. The order of acceptance and
-- the order of the stream are the rows' own numbers: there is one writer at a time.
CREATE TABLE tx (
    position              INTEGER PRIMARY KEY AUTOINCREMENT,
    tx_id                 BLOB    NOT NULL UNIQUE CHECK (length(tx_id) = 16),
    tenant                TEXT    NOT NULL,
    chain_id              INTEGER NOT NULL CHECK (chain_id > 0),
    signer                BLOB    NOT NULL CHECK (length(signer) = 20),
    request_id            TEXT    CHECK (length(CAST(request_id AS BLOB)) BETWEEN 1 AND 255),
    request_hash          BLOB    NOT NULL CHECK (length(request_hash) = 32),
    payload               TEXT    NOT NULL CHECK (json_valid(payload)),
    finality              TEXT    NOT NULL CHECK (finality IN ('safe', 'finalized')
        OR (finality <> '' AND finality NOT GLOB '*[^0-9]*')),
    gas_limit             INTEGER CHECK (gas_limit >= 0),
    nonce                 INTEGER CHECK (nonce >= 0),
    state                 TEXT    NOT NULL CHECK (state IN
        ('CREATED', 'ALLOCATED', 'SUBMITTED', 'TRACKING', 'CONFIRMED', 'FAILED')),
    sub_state             TEXT    CHECK (sub_state IN
        ('PENDING', 'STALE', 'UNDERPRICED', 'INSUFFICIENT_FUNDS', 'REORGED', 'REVERTED', 'CANCELLED',
         'REJECTED', 'REPLACED_EXTERNALLY', 'PAUSED')),
    outcome               TEXT    CHECK (outcome IN ('success', 'reverted')),
    tx_hash               BLOB    CHECK (length(tx_hash) = 32),
    block_number          INTEGER CHECK (block_number >= 0),
    block_hash            BLOB    CHECK (length(block_hash) = 32),
    receipt               TEXT    CHECK (json_valid(receipt)),
    told_height           INTEGER CHECK (told_height >= 0),
    told_hash             BLOB    CHECK (length(told_hash) = 32),
    error                 TEXT,
    events                INTEGER NOT NULL CHECK (events > 0),
    sends                 INTEGER NOT NULL DEFAULT 0,
    created_at            INTEGER NOT NULL,
    updated_at            INTEGER NOT NULL,
    first_submit_at       INTEGER,
    last_submit_at        INTEGER,
    next_resubmit_at      INTEGER,
    last_receipt_check_at INTEGER,
    confirmed_at          INTEGER,
    CONSTRAINT tx_nonce_fits_state CHECK (CASE state
        WHEN 'CREATED' THEN nonce IS NULL WHEN 'FAILED' THEN 1 ELSE nonce IS NOT NULL END),
    CONSTRAINT tx_mined_has_receipt CHECK (state NOT IN ('TRACKING', 'CONFIRMED')
        OR (receipt IS NOT NULL AND outcome IS NOT NULL)),
    CONSTRAINT tx_receipt_is_whole CHECK ((receipt IS NULL) = (block_number IS NULL)
        AND (receipt IS NULL) = (block_hash IS NULL)),
    CONSTRAINT tx_told_is_whole CHECK ((told_height IS NULL) = (told_hash IS NULL))
) STRICT;

CREATE UNIQUE INDEX tx_request ON tx (tenant, chain_id, signer, request_id) WHERE request_id IS NOT NULL;
CREATE INDEX tx_waiting ON tx (chain_id, signer, position) WHERE state = 'CREATED';
CREATE UNIQUE INDEX tx_open ON tx (chain_id, signer, nonce)
    WHERE state IN ('ALLOCATED', 'SUBMITTED', 'TRACKING');
CREATE INDEX tx_done ON tx (chain_id, signer, block_number) WHERE state = 'CONFIRMED';
CREATE INDEX tx_of_tenant ON tx (tenant, position);
CREATE INDEX tx_of_lane ON tx (tenant, chain_id, signer, position);

CREATE TRIGGER tx_bound_nonce_never_changes BEFORE UPDATE ON tx
    WHEN OLD.nonce IS NOT NULL AND NEW.nonce IS NOT OLD.nonce
    BEGIN SELECT RAISE(ABORT, 'transaction: a bound nonce never changes'); END;

CREATE TRIGGER tx_history_never_gets_shorter BEFORE UPDATE ON tx
    WHEN NEW.events < OLD.events
    BEGIN SELECT RAISE(ABORT, 'transaction: its history never gets shorter'); END;

CREATE TRIGGER tx_stays_on_its_lane BEFORE UPDATE ON tx
    WHEN NEW.chain_id <> OLD.chain_id OR NEW.signer <> OLD.signer
    BEGIN SELECT RAISE(ABORT, 'transaction: it stays on its lane'); END;

CREATE TABLE attempt (
    tx_id         BLOB    NOT NULL,
    number        INTEGER NOT NULL CHECK (number > 0),
    hash          BLOB    NOT NULL UNIQUE CHECK (length(hash) = 32),
    raw           BLOB    NOT NULL CHECK (length(raw) > 0),
    fees          TEXT    NOT NULL CHECK (json_valid(fees)),
    gas_limit     INTEGER NOT NULL CHECK (gas_limit >= 0),
    fencing_token INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    last_sent_at  INTEGER,
    sends         INTEGER NOT NULL DEFAULT 0,
    said          TEXT    CHECK (json_valid(said)),
    PRIMARY KEY (tx_id, number)
) STRICT;

CREATE TABLE tx_event (
    entry         INTEGER PRIMARY KEY AUTOINCREMENT,
    tx_id         BLOB    NOT NULL,
    seq           INTEGER NOT NULL CHECK (seq > 0),
    tenant        TEXT    NOT NULL,
    chain_id      INTEGER NOT NULL,
    signer        BLOB    NOT NULL,
    kind          TEXT    NOT NULL CHECK (kind <> ''),
    state         TEXT    NOT NULL CHECK (state IN
        ('CREATED', 'ALLOCATED', 'SUBMITTED', 'TRACKING', 'CONFIRMED', 'FAILED')),
    sub_state     TEXT,
    at            INTEGER NOT NULL,
    node_id       TEXT    NOT NULL,
    fencing_token INTEGER,
    data          TEXT    NOT NULL CHECK (json_valid(data)),
    UNIQUE (tx_id, seq)
) STRICT;

CREATE TABLE header (
    chain_id    INTEGER NOT NULL CHECK (chain_id > 0),
    height      INTEGER NOT NULL CHECK (height >= 0),
    hash        BLOB    NOT NULL CHECK (length(hash) = 32),
    parent      BLOB    NOT NULL CHECK (length(parent) = 32),
    seen_at     INTEGER NOT NULL,
    replaced_at INTEGER,
    PRIMARY KEY (chain_id, height, hash)
) STRICT, WITHOUT ROWID;
