-- A restored database does not know what was sent after the backup was taken. A lane of such a
-- database is marked, and nothing that waits on it gets a nonce by itself: what waits may have been
-- sent in the history that was lost.

ALTER TABLE lane
    -- When the lane was brought into a history in which commits may be missing; NULL if it never was.
    ADD COLUMN restored_at        timestamptz,
    -- The nonces that were stepped over then, and since: from here, and up to there.
    ADD COLUMN restored_from      bigint CHECK (restored_from >= 0),
    ADD COLUMN restored_to        bigint,
    -- When a person said that what still waits was never sent. From then on only requests wait that do
    -- the same as a transaction which was found on the chain and belongs to nobody.
    ADD COLUMN restore_settled_at timestamptz,
    -- How often the lane was marked. A person's word is about one of these marks, and clocks of two
    -- servers do not tell which.
    ADD COLUMN restored_number    bigint NOT NULL DEFAULT 0,
    -- The lane began while it was marked: what its account sent below restored_from may have been sent by
    -- the lost history too, and is not read.
    ADD COLUMN restored_begun     boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT lane_restore_is_numbered CHECK (
        (restored_at IS NULL) = (restored_number = 0) AND restored_number >= 0
        AND (restored_at IS NOT NULL OR NOT restored_begun)),
    ADD CONSTRAINT lane_restore_is_whole CHECK (
        (restored_at IS NULL) = (restored_from IS NULL) AND (restored_at IS NULL) = (restored_to IS NULL)
        AND (restored_at IS NOT NULL OR restore_settled_at IS NULL) AND restored_from <= restored_to);

-- Few, and most often none.
CREATE INDEX lane_restored ON lane (chain_id, signer) WHERE restored_at IS NOT NULL;
-- For whether any comes from another history.
CREATE INDEX lane_timeline ON lane (timeline);
CREATE INDEX lane_unaligned ON lane (chain_id, signer) WHERE timeline IS NULL AND next_nonce IS NOT NULL;

-- Transactions on chain at nonces of which the database knows nothing any more.
CREATE TABLE lost_tx (
    chain_id     bigint      NOT NULL CHECK (chain_id > 0),
    signer       bytea       NOT NULL CHECK (octet_length(signer) = 20),
    nonce        bigint      NOT NULL CHECK (nonce >= 0),
    hash         bytea       NOT NULL CHECK (octet_length(hash) = 32),
    block_number bigint      NOT NULL CHECK (block_number >= 0),
    -- The signed bytes, and what they do in the form of a request's payload; NULL for kinds of
    -- transactions that Stile does not sign.
    raw          bytea       CHECK (octet_length(raw) > 0),
    payload      json,
    found_at     timestamptz NOT NULL,
    -- The transaction that it was sent for.
    claimed_by   uuid        UNIQUE,
    PRIMARY KEY (chain_id, signer, nonce),
    CONSTRAINT lost_tx_is_readable_or_not CHECK ((raw IS NULL) = (payload IS NULL)),
    CONSTRAINT lost_tx_is_claimed_by_what_it_does CHECK (claimed_by IS NULL OR raw IS NOT NULL)
);

COMMENT ON TABLE lost_tx IS 'What the chain has and a restored database had forgotten';

CREATE INDEX lost_tx_unclaimed ON lost_tx (chain_id, signer, nonce) WHERE claimed_by IS NULL;

CREATE FUNCTION lost_tx_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'lost transaction at nonce %: it is claimed once, as it is, and never changes then', OLD.nonce
        USING ERRCODE = 'check_violation';
END $$;

CREATE TRIGGER lost_tx_rules BEFORE UPDATE ON lost_tx FOR EACH ROW
    WHEN (OLD.claimed_by IS NOT NULL
          OR (NEW.claimed_by IS NOT NULL
              AND (NEW.hash <> OLD.hash OR NEW.raw IS DISTINCT FROM OLD.raw)))
    EXECUTE FUNCTION lost_tx_refuse();

-- Whether a payload does the same as a transaction that was found on the chain and belongs to nobody.
CREATE FUNCTION stile_is_like_lost(of_chain bigint, of_signer bytea, of_payload json)
RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM lost_tx f
                   WHERE f.chain_id = of_chain AND f.signer = of_signer AND f.claimed_by IS NULL
                     AND f.payload->>'to' IS NOT DISTINCT FROM of_payload->>'to'
                     AND f.payload->>'value' = of_payload->>'value'
                     AND f.payload->>'data' = of_payload->>'data'
                     -- What has it as an attempt is what it was sent for; or its caller has said so.
                     AND NOT EXISTS (SELECT FROM attempt a WHERE a.hash = f.hash)
                     AND NOT EXISTS (SELECT FROM nonce n
                                     WHERE n.chain_id = f.chain_id AND n.signer = f.signer
                                       AND n.nonce = f.nonce AND n.owner_kind = 'hold'
                                       AND n.tx_hash = f.hash))
$$;

-- Whether a lane's mark holds up a transaction that has no nonce. A word counts while the mark is the
-- one that it was about, whatever became of the transaction since. Empty transactions for gaps pay nobody.
CREATE FUNCTION stile_is_marked(l lane, t tx) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT (l).restored_at IS NOT NULL
       AND NOT EXISTS (SELECT FROM tx_event e
                       WHERE e.tx_id = (t).tx_id AND e.kind = 'CLEARED'
                         AND (e.data->>'mark')::bigint = (l).restored_number)
       AND (t).tenant <> 'stile:filler'
       AND ((l).restore_settled_at IS NULL OR stile_is_like_lost((t).chain_id, (t).signer, (t).payload))
$$;

-- Whether a transaction that has no nonce waits for a person's word, or for the chain's. On a lane that
-- has not been held against its chain in this history nothing is known yet, so everything does.
CREATE FUNCTION stile_awaits_word(l lane, t tx) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT stile_is_marked(l, t)
        OR ((l).next_nonce IS NOT NULL AND (t).tenant <> 'stile:filler'
            AND (l).timeline IS DISTINCT FROM stile_timeline())
$$;

-- Whether the history that was lost may have given a hold's nonce to a transaction: the hold is older than
-- the restore, so it had been given back or may have been since, or only a node remembers it.
CREATE FUNCTION stile_may_be_lost(of_status text, of_reason text, of_time timestamptz, lane_restored timestamptz)
RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT (of_status <> 'CONSUMED' AND of_time < lane_restored)
        OR (of_status = 'SUSPECT' AND of_reason = 'given out before the database lost its last commits')
$$;

ALTER TABLE tx DROP CONSTRAINT tx_sub_state_check;
ALTER TABLE tx ADD CONSTRAINT tx_sub_state_check CHECK (sub_state IN
    ('PENDING', 'STALE', 'UNDERPRICED', 'INSUFFICIENT_FUNDS', 'REORGED', 'REVERTED', 'CANCELLED',
     'REJECTED', 'REPLACED_EXTERNALLY', 'PAUSED', 'RESTORED', 'CLEARED', 'ESTIMATING'));
