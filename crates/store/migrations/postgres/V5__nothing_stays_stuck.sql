-- Attempts that take each other's place, transactions that lose their nonce to somebody else's, what
-- callers want of one that is on its way, and what happens to lanes.

ALTER TABLE attempt ADD COLUMN kind text NOT NULL DEFAULT 'SEND'
    CONSTRAINT attempt_kind_is_known CHECK (kind IN ('SEND', 'BUMP', 'CANCEL', 'GIVE_UP'));

ALTER TABLE tx
    -- The transaction that is on the chain at its nonce, and the height of that one's block.
    ADD COLUMN rival       json,
    ADD COLUMN rival_block bigint CHECK (rival_block >= 0),
    -- What its caller wants of it and its holder has not seen to yet.
    ADD COLUMN wish        json,
    -- The transaction in whose place it was made, and the one made in its own.
    ADD COLUMN replaces    uuid,
    ADD COLUMN replaced_by uuid,
    ADD CONSTRAINT tx_rival_is_whole CHECK ((rival IS NULL) = (rival_block IS NULL));

-- The block that ended it: its own, or that of the transaction that took its nonce. A reorganisation
-- down to it reopens either. What a generated column says cannot be changed in place on all servers;
-- its indexes go with it.
ALTER TABLE tx DROP COLUMN done_block;
ALTER TABLE tx ADD COLUMN done_block bigint GENERATED ALWAYS AS (CASE state
    WHEN 'CONFIRMED' THEN block_number WHEN 'FAILED' THEN rival_block END) STORED;
CREATE INDEX tx_done ON tx (chain_id, signer, done_block) WHERE done_block IS NOT NULL;
CREATE INDEX tx_failed ON tx (chain_id, signer, position) WHERE phase = 'DONE' AND done_block IS NULL;

-- Transactions that have lost their nonce: together with tx_failed, all that failed.
CREATE INDEX tx_lost ON tx (chain_id, signer, position) WHERE rival_block IS NOT NULL;

-- One that lost its nonce is followed by one other at most.
CREATE UNIQUE INDEX tx_replaces ON tx (replaces) WHERE replaces IS NOT NULL;

-- What holders have not seen to: small, whatever the history holds.
CREATE INDEX tx_wish ON tx (chain_id, signer) WHERE wish IS NOT NULL;

-- What was known of the column is gone with it.
ANALYZE tx;

-- What happened to each lane. Its places and those of tx_event are one order: the number of the
-- database transaction, and then a number from the same sequence.
CREATE TABLE lane_event (
    transaction   bigint      NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
    entry         bigint      NOT NULL DEFAULT nextval('tx_event_entry_seq'),
    chain_id      bigint      NOT NULL CHECK (chain_id > 0),
    signer        bytea       NOT NULL CHECK (octet_length(signer) = 20),
    kind          text        NOT NULL CHECK (kind <> ''),
    at            timestamptz NOT NULL,
    node_id       text        NOT NULL,
    -- NULL for what needs no lease.
    fencing_token bigint,
    data          json        NOT NULL,
    PRIMARY KEY (transaction, entry)
);

CREATE INDEX lane_event_of_lane ON lane_event (chain_id, signer, transaction, entry);

COMMENT ON TABLE lane_event IS 'What happened to each lane, in order';
