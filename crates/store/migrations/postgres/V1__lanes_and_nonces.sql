-- One row per lane: one signer on one chain. The lease and the cursor share the row, so that the
-- fence check and the nonce move are one row lock. The row is never deleted.
CREATE TABLE lane (
    chain_id          bigint      NOT NULL CHECK (chain_id > 0),
    signer            bytea       NOT NULL CHECK (octet_length(signer) = 20),
    owner_node        text        NOT NULL,
    owner_incarnation uuid        NOT NULL,
    owner_url         text,
    fencing_token     bigint      NOT NULL CHECK (fencing_token > 0),
    acquired_at       timestamptz NOT NULL,
    expires_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL,
    -- NULL until the lane has been aligned with its chain for the first time.
    next_nonce        bigint      CHECK (next_nonce >= 0),
    last_chain_nonce  bigint      CHECK (last_chain_nonce >= 0),
    -- Why the lane is paused, in words; NULL while it is not.
    paused            text        CHECK (paused <> ''),
    PRIMARY KEY (chain_id, signer)
) WITH (fillfactor = 50);  -- room for HOT updates: every write of a holder updates this row

COMMENT ON TABLE lane IS 'Lease and cursor of each signer on each chain';

-- What no lane row may ever do. One trigger with one condition, because PostgreSQL reads each
-- condition anew for every statement; the function only runs when something is wrong.
CREATE FUNCTION lane_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'lane %: %', encode(OLD.signer, 'hex'), CASE
        WHEN TG_OP = 'DELETE' THEN 'a lane row is never deleted'
        WHEN NEW.fencing_token < OLD.fencing_token THEN 'the fencing token never falls'
        WHEN NEW.owner_incarnation <> OLD.owner_incarnation THEN 'a new incarnation must raise the fencing token'
        ELSE 'the cursor only moves back together with a raised token'
    END USING ERRCODE = 'check_violation';
END $$;

CREATE TRIGGER lane_rules BEFORE UPDATE ON lane FOR EACH ROW
    WHEN (NEW.fencing_token <= OLD.fencing_token
          AND (NEW.fencing_token < OLD.fencing_token
               OR NEW.owner_incarnation <> OLD.owner_incarnation
               OR NEW.next_nonce < OLD.next_nonce
               OR (NEW.next_nonce IS NULL AND OLD.next_nonce IS NOT NULL)))
    EXECUTE FUNCTION lane_refuse();

CREATE TRIGGER lane_is_never_deleted BEFORE DELETE ON lane FOR EACH ROW
    EXECUTE FUNCTION lane_refuse();

-- The nonce ledger: each nonce of a lane belongs to exactly one hold, transaction or filler.
-- There is no foreign key to lane: a row is only inserted by a transaction that has just updated
-- its lane's row, lane rows are never deleted, and the check would cost more than the insert.
CREATE TABLE nonce (
    chain_id      bigint      NOT NULL,
    signer        bytea       NOT NULL,
    nonce         bigint      NOT NULL CHECK (nonce >= 0),
    owner_kind    text        NOT NULL CHECK (owner_kind IN ('hold', 'tx', 'filler')),
    owner_id      uuid        NOT NULL,
    status        text        NOT NULL CHECK (status IN ('HELD', 'CONSUMED', 'RELEASED', 'SUSPECT')),
    locked_until  timestamptz NOT NULL,
    tx_hash       bytea       CHECK (octet_length(tx_hash) = 32),
    reason        text,
    fencing_token bigint      NOT NULL,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    PRIMARY KEY (chain_id, signer, nonce),
    CHECK (tx_hash IS NULL OR status = 'CONSUMED')
);

COMMENT ON TABLE nonce IS 'Every nonce ever given out, and who has it';

-- What is not settled yet: small, whatever the history holds.
CREATE INDEX nonce_open ON nonce (chain_id, signer, nonce) WHERE status <> 'CONSUMED';

CREATE FUNCTION nonce_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'nonce % of %: %', OLD.nonce, encode(OLD.signer, 'hex'), CASE
        WHEN OLD.status = 'CONSUMED' THEN 'CONSUMED is absorbing'
        ELSE 'only a RELEASED nonce is given out again'
    END USING ERRCODE = 'check_violation';
END $$;

CREATE TRIGGER nonce_rules BEFORE UPDATE ON nonce FOR EACH ROW
    WHEN ((OLD.status = 'CONSUMED' AND NEW.status <> 'CONSUMED')
          OR (NEW.owner_id <> OLD.owner_id AND OLD.status <> 'RELEASED'))
    EXECUTE FUNCTION nonce_refuse();

-- Holds whose nonce was given out again. A late or repeated mark finds its answer here.
CREATE TABLE past_hold (
    hold_id      uuid        PRIMARY KEY,
    chain_id     bigint      NOT NULL,
    signer       bytea       NOT NULL,
    nonce        bigint      NOT NULL,
    locked_until timestamptz NOT NULL,
    reason       text,
    released_at  timestamptz NOT NULL
);

-- Idempotency keys of allocations. The absence of a key is the absence of a row.
CREATE TABLE allocation_key (
    tenant          text        NOT NULL,
    chain_id        bigint      NOT NULL,
    signer          bytea       NOT NULL,
    idempotency_key text        NOT NULL CHECK (octet_length(idempotency_key) BETWEEN 1 AND 255),
    nonce           bigint      NOT NULL,
    hold_id         uuid        NOT NULL,
    created_at      timestamptz NOT NULL,
    PRIMARY KEY (tenant, chain_id, signer, idempotency_key)
);
