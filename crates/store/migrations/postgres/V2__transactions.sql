-- The order of acceptance, over all lanes. A sequence by its own name, because an acceptance draws
-- its numbers in the order of its list and inserts in the order of the unique index.
CREATE SEQUENCE tx_position;

-- Managed transactions, each with where it stands now. Payload and receipt are kept as the text
-- they came in: nothing here looks into them, and `json` costs no more than a check.
CREATE TABLE tx (
    tx_id                 uuid        PRIMARY KEY,
    position              bigint      NOT NULL DEFAULT nextval('tx_position'),
    tenant                text        NOT NULL,
    chain_id              bigint      NOT NULL CHECK (chain_id > 0),
    signer                bytea       NOT NULL CHECK (octet_length(signer) = 20),
    -- The caller's own name for it; NULL where it gave none.
    request_id            text        CHECK (octet_length(request_id) BETWEEN 1 AND 255),
    request_hash          bytea       NOT NULL CHECK (octet_length(request_hash) = 32),
    payload               json        NOT NULL,
    -- A number of confirmations, 'safe' or 'finalized'.
    finality              text        NOT NULL CHECK (finality ~ '^([0-9]+|safe|finalized)$'),
    gas_limit             bigint      CHECK (gas_limit >= 0),
    nonce                 bigint      CHECK (nonce >= 0),
    state                 text        NOT NULL CHECK (state IN
        ('CREATED', 'ALLOCATED', 'SUBMITTED', 'TRACKING', 'CONFIRMED', 'FAILED')),
    sub_state             text        CHECK (sub_state IN
        ('PENDING', 'STALE', 'UNDERPRICED', 'INSUFFICIENT_FUNDS', 'REORGED', 'REVERTED', 'CANCELLED',
         'REJECTED', 'REPLACED_EXTERNALLY', 'PAUSED')),
    outcome               text        CHECK (outcome IN ('success', 'reverted')),
    tx_hash               bytea       CHECK (octet_length(tx_hash) = 32),
    block_number          bigint      CHECK (block_number >= 0),
    block_hash            bytea       CHECK (octet_length(block_hash) = 32),
    receipt               json,
    told_height           bigint      CHECK (told_height >= 0),
    told_hash             bytea       CHECK (octet_length(told_hash) = 32),
    error                 text,
    -- How long its history is. Every change is a compare-and-set on it.
    events                int         NOT NULL CHECK (events > 0),
    sends                 int         NOT NULL DEFAULT 0,
    created_at            timestamptz NOT NULL,
    updated_at            timestamptz NOT NULL,
    first_submit_at       timestamptz,
    last_submit_at        timestamptz,
    next_resubmit_at      timestamptz,
    last_receipt_check_at timestamptz,
    confirmed_at          timestamptz,
    -- What the indexes below go by. They say less than state and block_number and so change less
    -- often: between binding and the end an update touches no index.
    phase                 text        NOT NULL GENERATED ALWAYS AS (CASE state
        WHEN 'CREATED' THEN 'WAITING' WHEN 'CONFIRMED' THEN 'DONE' WHEN 'FAILED' THEN 'DONE'
        ELSE 'OPEN' END) STORED,
    done_block            bigint      GENERATED ALWAYS AS (CASE state
        WHEN 'CONFIRMED' THEN block_number END) STORED,
    CONSTRAINT tx_nonce_fits_state CHECK (CASE state
        WHEN 'CREATED' THEN nonce IS NULL WHEN 'FAILED' THEN true ELSE nonce IS NOT NULL END),
    CONSTRAINT tx_mined_has_receipt CHECK (state NOT IN ('TRACKING', 'CONFIRMED')
        OR (receipt IS NOT NULL AND outcome IS NOT NULL)),
    CONSTRAINT tx_receipt_is_whole CHECK ((receipt IS NULL) = (block_number IS NULL)
        AND (receipt IS NULL) = (block_hash IS NULL)),
    CONSTRAINT tx_told_is_whole CHECK ((told_height IS NULL) = (told_hash IS NULL))
) WITH (fillfactor = 50);  -- room for the updates that touch no index; less, and most go elsewhere

COMMENT ON TABLE tx IS 'Managed transactions and where they stand';

-- A request id counts once per tenant and lane. Its absence is the absence from this index.
CREATE UNIQUE INDEX tx_request ON tx (tenant, chain_id, signer, request_id) WHERE request_id IS NOT NULL;

-- What waits for a nonce, in order of acceptance: small, whatever the history holds.
CREATE INDEX tx_waiting ON tx (chain_id, signer, position) WHERE phase = 'WAITING';

-- What has a nonce and is not done. Unique beside the ledger's own key, because it costs nothing.
CREATE UNIQUE INDEX tx_open ON tx (chain_id, signer, nonce) WHERE phase = 'OPEN';

-- What a reorganisation may reopen: read from the top, as deep as reorganisations go.
CREATE INDEX tx_done ON tx (chain_id, signer, done_block) WHERE done_block IS NOT NULL;

-- Lists for people, newest first. Both begin with the tenant, so that no plan can mistake them for
-- a way to what is open on a lane and read all of its history instead.
CREATE INDEX tx_of_tenant ON tx (tenant, position);
CREATE INDEX tx_of_lane ON tx (tenant, chain_id, signer, position);

CREATE FUNCTION tx_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'transaction %: %', OLD.tx_id, CASE
        WHEN NEW.nonce IS DISTINCT FROM OLD.nonce AND OLD.nonce IS NOT NULL THEN 'a bound nonce never changes'
        WHEN NEW.events < OLD.events THEN 'its history never gets shorter'
        ELSE 'it stays on its lane'
    END USING ERRCODE = 'check_violation';
END $$;

CREATE TRIGGER tx_rules BEFORE UPDATE ON tx FOR EACH ROW
    WHEN ((OLD.nonce IS NOT NULL AND NEW.nonce IS DISTINCT FROM OLD.nonce)
          OR NEW.events < OLD.events
          OR NEW.chain_id <> OLD.chain_id OR NEW.signer <> OLD.signer)
    EXECUTE FUNCTION tx_refuse();

-- Signed attempts. All attempts of a transaction share its nonce; any of them may be the one mined.
CREATE TABLE attempt (
    tx_id         uuid        NOT NULL,
    number        int         NOT NULL CHECK (number > 0),
    hash          bytea       NOT NULL CHECK (octet_length(hash) = 32),
    -- What is sent, and sent again: never signed anew.
    raw           bytea       NOT NULL CHECK (octet_length(raw) > 0),
    fees          json        NOT NULL,
    gas_limit     bigint      NOT NULL CHECK (gas_limit >= 0),
    fencing_token bigint      NOT NULL,
    created_at    timestamptz NOT NULL,
    last_sent_at  timestamptz,
    sends         int         NOT NULL DEFAULT 0,
    said          json,
    PRIMARY KEY (tx_id, number)
) WITH (fillfactor = 50);  -- room for the note that it was sent

CREATE UNIQUE INDEX attempt_hash ON attempt (hash);

COMMENT ON TABLE attempt IS 'Every signed transaction, written before it is sent';

-- History, outbox and audit in one: an entry for every change of a transaction, in the same commit.
-- Entries carry what the stream is filtered by, so that reading it takes no join.
CREATE TABLE tx_event (
    tx_id         uuid        NOT NULL,
    -- Without gaps, because it is taken from the count that every change compares and sets.
    seq           int         NOT NULL CHECK (seq > 0),
    -- The order of the stream. Commits finish out of order, but a reader who stops short of the
    -- oldest transaction still running misses nothing.
    transaction   bigint      NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
    entry         bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    tenant        text        NOT NULL,
    chain_id      bigint      NOT NULL,
    signer        bytea       NOT NULL,
    kind          text        NOT NULL CHECK (kind <> ''),
    state         text        NOT NULL CHECK (state IN
        ('CREATED', 'ALLOCATED', 'SUBMITTED', 'TRACKING', 'CONFIRMED', 'FAILED')),
    sub_state     text,
    at            timestamptz NOT NULL,
    node_id       text        NOT NULL,
    -- NULL for what needs no lease.
    fencing_token bigint,
    data          json        NOT NULL,
    PRIMARY KEY (tx_id, seq)
);

CREATE INDEX tx_event_stream ON tx_event (transaction, entry);

COMMENT ON TABLE tx_event IS 'What happened to each transaction, in order';

-- The canonical chain as far back as a reorganisation may reach, and what it replaced.
CREATE TABLE header (
    chain_id    bigint      NOT NULL CHECK (chain_id > 0),
    height      bigint      NOT NULL CHECK (height >= 0),
    hash        bytea       NOT NULL CHECK (octet_length(hash) = 32),
    parent      bytea       NOT NULL CHECK (octet_length(parent) = 32),
    seen_at     timestamptz NOT NULL,
    -- NULL while it is canonical.
    replaced_at timestamptz,
    PRIMARY KEY (chain_id, height, hash)
);
