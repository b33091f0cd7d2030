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

CREATE TABLE api_closed (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    since INTEGER NOT NULL
) STRICT;

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
    revoked_at INTEGER, networks TEXT CHECK (networks <> '' AND networks NOT GLOB '*[^0-9a-f.:/,]*'), last_used_at INTEGER, replaced_by BLOB CHECK (replaced_by IS NULL OR expires_at IS NOT NULL),
    CONSTRAINT api_key_admin_has_all_signers CHECK (signers IS NULL OR instr(operations, 'admin') = 0),
    CONSTRAINT api_key_expires_later CHECK (expires_at > created_at)
) STRICT;

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
    said          TEXT    CHECK (json_valid(said)), kind TEXT NOT NULL DEFAULT 'SEND'
    CHECK (kind IN ('SEND', 'BUMP', 'CANCEL', 'GIVE_UP')),
    PRIMARY KEY (tx_id, number)
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
    paused            TEXT    CHECK (paused <> ''), timeline TEXT CHECK (timeline <> ''), elsewhere TEXT CHECK (elsewhere IN ('v1', 'stopped', 'share')), restored_at INTEGER, restored_from INTEGER
    CHECK (restored_from >= 0) CHECK ((restored_at IS NULL) = (restored_from IS NULL)), restored_to INTEGER
    CHECK (restored_from <= restored_to) CHECK ((restored_at IS NULL) = (restored_to IS NULL)), restore_settled_at INTEGER
    CHECK (restored_at IS NOT NULL OR restore_settled_at IS NULL), restored_number INTEGER NOT NULL DEFAULT 0
    CHECK (restored_number >= 0) CHECK ((restored_at IS NULL) = (restored_number = 0)), restored_begun INTEGER NOT NULL DEFAULT 0
    CHECK (restored_begun IN (0, 1)) CHECK (restored_at IS NOT NULL OR restored_begun = 0),
    PRIMARY KEY (chain_id, signer)
) STRICT, WITHOUT ROWID;

CREATE TABLE lane_event (
    entry         INTEGER PRIMARY KEY,
    chain_id      INTEGER NOT NULL CHECK (chain_id > 0),
    signer        BLOB    NOT NULL CHECK (length(signer) = 20),
    kind          TEXT    NOT NULL CHECK (kind <> ''),
    at            INTEGER NOT NULL,
    node_id       TEXT    NOT NULL,
    fencing_token INTEGER,
    data          TEXT    NOT NULL CHECK (json_valid(data))
) STRICT;

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

CREATE TABLE node (
    node_id     TEXT    PRIMARY KEY CHECK (node_id <> ''),
    incarnation BLOB    NOT NULL CHECK (length(incarnation) = 16),
    url         TEXT,
    mode        TEXT    NOT NULL CHECK (mode IN ('basic', 'worker-queue')),
    -- Nodes that serve the same lanes with the same keys have the same text here. Only between those
    -- do lanes move.
    serves      TEXT    NOT NULL,
    started_at  INTEGER NOT NULL,
    seen_at     INTEGER NOT NULL,
    -- It is about to end and takes no more lanes.
    draining    INTEGER NOT NULL DEFAULT 0 CHECK (draining IN (0, 1)),
    CHECK (started_at <= seen_at)
) STRICT;

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

CREATE TABLE origin (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    place TEXT    NOT NULL
, run TEXT, run_before TEXT) STRICT;

CREATE TABLE past_hold (
    hold_id      BLOB    PRIMARY KEY CHECK (length(hold_id) = 16),
    chain_id     INTEGER NOT NULL,
    signer       BLOB    NOT NULL,
    nonce        INTEGER NOT NULL,
    locked_until INTEGER NOT NULL,
    reason       TEXT,
    released_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE rollout_lane (
    chain_id   INTEGER NOT NULL CHECK (chain_id > 0),
    signer     BLOB    NOT NULL CHECK (length(signer) = 20),
    owner      TEXT    NOT NULL CHECK (owner IN ('stile', 'v1', 'stopped')),
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (chain_id, signer)
) STRICT, WITHOUT ROWID;

CREATE TABLE rollout_share (
    chain_id INTEGER PRIMARY KEY CHECK (chain_id > 0),
    percent  INTEGER NOT NULL CHECK (percent BETWEEN 0 AND 100)
) STRICT;

CREATE TABLE rollout_version (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    version INTEGER NOT NULL
) STRICT;

CREATE TABLE sqlite_sequence(name,seq);

CREATE TABLE stream_history (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    history  INTEGER NOT NULL UNIQUE CHECK (history > 0),
    began    INTEGER NOT NULL,
    -- NULL for the one that goes on.
    reached  INTEGER
) STRICT;

CREATE TABLE "tx" (
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
        OR receipt IS NOT NULL),
    CONSTRAINT tx_receipt_is_whole CHECK ((receipt IS NULL) = (block_number IS NULL)
        AND (receipt IS NULL) = (block_hash IS NULL)),
    CONSTRAINT tx_told_is_whole CHECK ((told_height IS NULL) = (told_hash IS NULL))
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

CREATE INDEX allocation_key_nonce ON allocation_key (chain_id, signer, nonce);

CREATE UNIQUE INDEX api_key_name ON api_key (name) WHERE revoked_at IS NULL AND replaced_by IS NULL;

CREATE INDEX lane_restored ON lane (chain_id, signer) WHERE restored_at IS NOT NULL;

CREATE INDEX lane_unaligned ON lane (chain_id, signer) WHERE timeline IS NULL AND next_nonce IS NOT NULL;

CREATE INDEX lane_event_of_lane ON lane_event (chain_id, signer, entry);

CREATE INDEX lost_tx_unclaimed ON lost_tx (chain_id, signer, nonce) WHERE claimed_by IS NULL;

CREATE INDEX nonce_hold_over ON nonce (chain_id, signer, nonce) WHERE owner_kind = 'hold' AND status = 'CONSUMED';

CREATE INDEX nonce_open ON nonce (chain_id, signer, nonce) WHERE status <> 'CONSUMED';

CREATE INDEX past_hold_released ON past_hold (released_at);

CREATE INDEX tx_done ON tx (chain_id, signer, done_block) WHERE done_block IS NOT NULL;

CREATE INDEX tx_failed ON tx (chain_id, signer, position) WHERE state = 'FAILED';

CREATE INDEX tx_of_lane ON tx (tenant, chain_id, signer, position);

CREATE INDEX tx_of_tenant ON tx (tenant, position);

CREATE UNIQUE INDEX tx_open ON tx (chain_id, signer, nonce)
    WHERE state IN ('ALLOCATED', 'SUBMITTED', 'TRACKING');

CREATE UNIQUE INDEX tx_replaces ON tx (replaces) WHERE replaces IS NOT NULL;

CREATE UNIQUE INDEX tx_request ON tx (tenant, chain_id, signer, request_id) WHERE request_id IS NOT NULL;

CREATE INDEX tx_waiting ON tx (chain_id, signer, position) WHERE state = 'CREATED';

CREATE INDEX tx_wish ON tx (chain_id, signer) WHERE wish IS NOT NULL;

CREATE TRIGGER api_closed_never_changes BEFORE UPDATE ON api_closed
    BEGIN SELECT RAISE(ABORT, 'closed stays closed: there was an API key, and every call needs one'); END;

CREATE TRIGGER api_closed_stays BEFORE DELETE ON api_closed
    BEGIN SELECT RAISE(ABORT, 'closed stays closed: there was an API key, and every call needs one'); END;

CREATE TRIGGER api_key_closes AFTER INSERT ON api_key
    BEGIN INSERT INTO api_closed (one, since) VALUES (1, NEW.created_at) ON CONFLICT DO NOTHING; END;

CREATE TRIGGER api_key_is_rotated_once BEFORE UPDATE ON api_key
    WHEN OLD.replaced_by IS NOT NULL AND NEW.replaced_by IS NOT OLD.replaced_by
    BEGIN SELECT RAISE(ABORT, 'API key: it is rotated once'); END;

CREATE TRIGGER api_key_never_changes BEFORE UPDATE ON api_key
    WHEN NEW.hash <> OLD.hash OR NEW.operations <> OLD.operations OR NEW.signers IS NOT OLD.signers
         OR NEW.networks IS NOT OLD.networks
    BEGIN SELECT RAISE(ABORT, 'API key: what it may do never changes'); END;

CREATE TRIGGER api_key_never_ends_later BEFORE UPDATE ON api_key
    WHEN OLD.expires_at IS NOT NULL AND (NEW.expires_at IS NULL OR NEW.expires_at > OLD.expires_at)
    BEGIN SELECT RAISE(ABORT, 'API key: it never ends later than it was to'); END;

CREATE TRIGGER api_key_stays BEFORE DELETE ON api_key
    BEGIN SELECT RAISE(ABORT, 'API keys are revoked, never removed'); END;

CREATE TRIGGER api_key_stays_revoked BEFORE UPDATE ON api_key
    WHEN OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS NOT OLD.revoked_at
    BEGIN SELECT RAISE(ABORT, 'API key: a revoked key stays revoked'); END;

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

CREATE TRIGGER lost_tx_is_claimed_once BEFORE UPDATE ON lost_tx
    WHEN OLD.claimed_by IS NOT NULL
      OR (NEW.claimed_by IS NOT NULL AND (NEW.hash <> OLD.hash OR NEW.raw IS NOT OLD.raw))
    BEGIN SELECT RAISE(ABORT, 'lost transaction: it is claimed once, as it is, and never changes then'); END;

CREATE TRIGGER node_rules BEFORE UPDATE ON node
WHEN NEW.incarnation <> OLD.incarnation AND NEW.started_at <= OLD.started_at
BEGIN
    SELECT RAISE(ABORT, 'a process never takes the place of one that started later');
END;

CREATE TRIGGER nonce_changes_hands_only_when_released BEFORE UPDATE ON nonce
    WHEN NEW.owner_id <> OLD.owner_id AND OLD.status <> 'RELEASED'
    BEGIN SELECT RAISE(ABORT, 'nonce: only a RELEASED nonce is given out again'); END;

CREATE TRIGGER nonce_consumed_is_absorbing BEFORE UPDATE ON nonce
    WHEN OLD.status = 'CONSUMED' AND (NEW.status <> 'CONSUMED' OR NEW.owner_id <> OLD.owner_id)
    BEGIN SELECT RAISE(ABORT, 'nonce: CONSUMED is absorbing'); END;

CREATE TRIGGER nonce_is_kept_until_consumed BEFORE DELETE ON nonce
    WHEN OLD.status <> 'CONSUMED'
    BEGIN SELECT RAISE(ABORT, 'nonce: what is not over is never removed'); END;

CREATE TRIGGER tx_bound_nonce_never_changes BEFORE UPDATE ON tx
    WHEN OLD.nonce IS NOT NULL AND NEW.nonce IS NOT OLD.nonce
    BEGIN SELECT RAISE(ABORT, 'transaction: a bound nonce never changes'); END;

CREATE TRIGGER tx_history_never_gets_shorter BEFORE UPDATE ON tx
    WHEN NEW.events < OLD.events
    BEGIN SELECT RAISE(ABORT, 'transaction: its history never gets shorter'); END;

CREATE TRIGGER tx_is_kept_until_done BEFORE DELETE ON tx
    WHEN OLD.state NOT IN ('CONFIRMED', 'FAILED')
    BEGIN SELECT RAISE(ABORT, 'tx: what is not over is never removed'); END;

CREATE TRIGGER tx_stays_on_its_lane BEFORE UPDATE ON tx
    WHEN NEW.chain_id <> OLD.chain_id OR NEW.signer <> OLD.signer
    BEGIN SELECT RAISE(ABORT, 'transaction: it stays on its lane'); END;

CREATE TRIGGER tx_with_successor_stays_closed BEFORE UPDATE ON tx
    WHEN OLD.replaced_by IS NOT NULL AND OLD.state = 'FAILED' AND NEW.state <> 'FAILED'
         AND NOT EXISTS (SELECT 1 FROM tx s
                         WHERE s.tx_id = OLD.replaced_by AND s.state = 'FAILED' AND s.nonce IS NULL)
    BEGIN SELECT RAISE(ABORT, 'transaction: it has a successor and is never sent again'); END;
