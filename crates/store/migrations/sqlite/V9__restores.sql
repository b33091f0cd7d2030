-- See the PostgreSQL migration for what each is for.
ALTER TABLE lane ADD COLUMN restored_at INTEGER;
ALTER TABLE lane ADD COLUMN restored_from INTEGER
    CHECK (restored_from >= 0) CHECK ((restored_at IS NULL) = (restored_from IS NULL));
ALTER TABLE lane ADD COLUMN restored_to INTEGER
    CHECK (restored_from <= restored_to) CHECK ((restored_at IS NULL) = (restored_to IS NULL));
ALTER TABLE lane ADD COLUMN restore_settled_at INTEGER
    CHECK (restored_at IS NOT NULL OR restore_settled_at IS NULL);
ALTER TABLE lane ADD COLUMN restored_number INTEGER NOT NULL DEFAULT 0
    CHECK (restored_number >= 0) CHECK ((restored_at IS NULL) = (restored_number = 0));
ALTER TABLE lane ADD COLUMN restored_begun INTEGER NOT NULL DEFAULT 0
    CHECK (restored_begun IN (0, 1)) CHECK (restored_at IS NOT NULL OR restored_begun = 0);

CREATE INDEX lane_restored ON lane (chain_id, signer) WHERE restored_at IS NOT NULL;
CREATE INDEX lane_unaligned ON lane (chain_id, signer) WHERE timeline IS NULL AND next_nonce IS NOT NULL;

CREATE TABLE lost_tx (
    chain_id     INTEGER NOT NULL CHECK (chain_id > 0),
    signer       BLOB    NOT NULL CHECK (length(signer) = 20),
    nonce        INTEGER NOT NULL CHECK (nonce >= 0),
    hash         BLOB    NOT NULL CHECK (length(hash) = 32),
    block_number INTEGER NOT NULL CHECK (block_number >= 0),
    raw          BLOB    CHECK (length(raw) > 0),
    payload      TEXT    CHECK (json_valid(payload)),
    found_at     INTEGER NOT NULL,
    claimed_by   BLOB    UNIQUE CHECK (length(claimed_by) = 16),
    PRIMARY KEY (chain_id, signer, nonce),
    CONSTRAINT lost_tx_is_readable_or_not CHECK ((raw IS NULL) = (payload IS NULL)),
    CONSTRAINT lost_tx_is_claimed_by_what_it_does CHECK (claimed_by IS NULL OR raw IS NOT NULL)
) STRICT;

CREATE INDEX lost_tx_unclaimed ON lost_tx (chain_id, signer, nonce) WHERE claimed_by IS NULL;

CREATE TRIGGER lost_tx_is_claimed_once BEFORE UPDATE ON lost_tx
    WHEN OLD.claimed_by IS NOT NULL
      OR (NEW.claimed_by IS NOT NULL AND (NEW.hash <> OLD.hash OR NEW.raw IS NOT OLD.raw))
    BEGIN SELECT RAISE(ABORT, 'lost transaction: it is claimed once, as it is, and never changes then'); END;

-- What a column may hold cannot be changed in place: the table is made anew, with everything that
-- belongs to it.
CREATE TABLE tx_anew (
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
         'REJECTED', 'REPLACED_EXTERNALLY', 'PAUSED', 'RESTORED', 'CLEARED', 'ESTIMATING')),
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
    rival                 TEXT    CHECK (json_valid(rival)),
    rival_block           INTEGER CHECK (rival_block >= 0) CHECK ((rival IS NULL) = (rival_block IS NULL)),
    wish                  TEXT    CHECK (json_valid(wish)),
    replaces              BLOB    CHECK (length(replaces) = 16),
    replaced_by           BLOB    CHECK (length(replaced_by) = 16),
    done_block            INTEGER GENERATED ALWAYS AS (CASE state
        WHEN 'CONFIRMED' THEN block_number WHEN 'FAILED' THEN rival_block END) VIRTUAL,
    CONSTRAINT tx_nonce_fits_state CHECK (CASE state
        WHEN 'CREATED' THEN nonce IS NULL WHEN 'FAILED' THEN 1 ELSE nonce IS NOT NULL END),
    CONSTRAINT tx_mined_has_receipt CHECK (state NOT IN ('TRACKING', 'CONFIRMED')
        OR (receipt IS NOT NULL AND outcome IS NOT NULL)),
    CONSTRAINT tx_receipt_is_whole CHECK ((receipt IS NULL) = (block_number IS NULL)
        AND (receipt IS NULL) = (block_hash IS NULL)),
    CONSTRAINT tx_told_is_whole CHECK ((told_height IS NULL) = (told_hash IS NULL))
) STRICT;

INSERT INTO tx_anew (
    position, tx_id, tenant, chain_id, signer, request_id, request_hash, payload, finality, gas_limit, nonce,
    state, sub_state, outcome, tx_hash, block_number, block_hash, receipt, told_height, told_hash, error, events,
    sends, created_at, updated_at, first_submit_at, last_submit_at, next_resubmit_at, last_receipt_check_at,
    confirmed_at, rival, rival_block, wish, replaces, replaced_by)
SELECT
    position, tx_id, tenant, chain_id, signer, request_id, request_hash, payload, finality, gas_limit, nonce,
    state, sub_state, outcome, tx_hash, block_number, block_hash, receipt, told_height, told_hash, error, events,
    sends, created_at, updated_at, first_submit_at, last_submit_at, next_resubmit_at, last_receipt_check_at,
    confirmed_at, rival, rival_block, wish, replaces, replaced_by
FROM tx;

-- The order of acceptance goes on where it was, also if the newest are removed already.
DELETE FROM sqlite_sequence WHERE name = 'tx_anew';
INSERT INTO sqlite_sequence (name, seq) SELECT 'tx_anew', seq FROM sqlite_sequence WHERE name = 'tx';

DROP TABLE tx;
ALTER TABLE tx_anew RENAME TO tx;

CREATE UNIQUE INDEX tx_request ON tx (tenant, chain_id, signer, request_id) WHERE request_id IS NOT NULL;
CREATE INDEX tx_waiting ON tx (chain_id, signer, position) WHERE state = 'CREATED';
CREATE UNIQUE INDEX tx_open ON tx (chain_id, signer, nonce)
    WHERE state IN ('ALLOCATED', 'SUBMITTED', 'TRACKING');
CREATE INDEX tx_done ON tx (chain_id, signer, done_block) WHERE done_block IS NOT NULL;
CREATE INDEX tx_failed ON tx (chain_id, signer, position) WHERE state = 'FAILED';
CREATE INDEX tx_of_tenant ON tx (tenant, position);
CREATE INDEX tx_of_lane ON tx (tenant, chain_id, signer, position);
CREATE UNIQUE INDEX tx_replaces ON tx (replaces) WHERE replaces IS NOT NULL;
CREATE INDEX tx_wish ON tx (chain_id, signer) WHERE wish IS NOT NULL;

CREATE TRIGGER tx_bound_nonce_never_changes BEFORE UPDATE ON tx
    WHEN OLD.nonce IS NOT NULL AND NEW.nonce IS NOT OLD.nonce
    BEGIN SELECT RAISE(ABORT, 'transaction: a bound nonce never changes'); END;

CREATE TRIGGER tx_history_never_gets_shorter BEFORE UPDATE ON tx
    WHEN NEW.events < OLD.events
    BEGIN SELECT RAISE(ABORT, 'transaction: its history never gets shorter'); END;

CREATE TRIGGER tx_stays_on_its_lane BEFORE UPDATE ON tx
    WHEN NEW.chain_id <> OLD.chain_id OR NEW.signer <> OLD.signer
    BEGIN SELECT RAISE(ABORT, 'transaction: it stays on its lane'); END;

CREATE TRIGGER tx_is_kept_until_done BEFORE DELETE ON tx
    WHEN OLD.state NOT IN ('CONFIRMED', 'FAILED')
    BEGIN SELECT RAISE(ABORT, 'tx: what is not over is never removed'); END;
