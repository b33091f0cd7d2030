-- Lanes that are moved to Stile one by one: which are its own already. Where nothing is said, all are.

-- One row. It is updated first by whoever changes what is below, and share-locked by whoever makes a
-- lane's row, so that no lane comes into being under a rule that is just being replaced.
CREATE TABLE rollout_version (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    version bigint  NOT NULL
);

INSERT INTO rollout_version (version) VALUES (0);

-- Of a chain's lanes that are not on the list: those whose number is below are Stile's.
CREATE TABLE rollout_share (
    chain_id bigint   PRIMARY KEY CHECK (chain_id > 0),
    percent  smallint NOT NULL CHECK (percent BETWEEN 0 AND 100)
);

-- The list. It goes before the share.
CREATE TABLE rollout_lane (
    chain_id   bigint      NOT NULL CHECK (chain_id > 0),
    signer     bytea       NOT NULL CHECK (octet_length(signer) = 20),
    owner      text        NOT NULL CHECK (owner IN ('stile', 'v1', 'stopped')),
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (chain_id, signer)
);

COMMENT ON TABLE rollout_lane IS 'Whose lanes are, while they are moved: stile, v1, or stopped in between';

-- A signer's number, 0 to 99; the domain has the same function.
CREATE FUNCTION stile_bucket(signer bytea) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT (get_byte(sha256(signer), 0) * 65536 + get_byte(sha256(signer), 1) * 256
            + get_byte(sha256(signer), 2)) % 100
$$;

-- Why a lane is not Stile's; NULL if it is.
CREATE FUNCTION stile_elsewhere(lane_chain bigint, lane_signer bytea) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT CASE
        WHEN l.owner = 'stile' THEN NULL
        WHEN l.owner IS NOT NULL THEN l.owner
        WHEN stile_bucket(lane_signer) >= s.percent THEN 'share'
    END
    FROM (SELECT) one
    LEFT JOIN rollout_lane l ON l.chain_id = lane_chain AND l.signer = lane_signer
    LEFT JOIN rollout_share s ON s.chain_id = lane_chain
$$;

-- What the rule says of the lane, in the row that the fence locks: a rule that is only looked up could
-- have changed while the fence waited.
ALTER TABLE lane ADD COLUMN elsewhere text CHECK (elsewhere IN ('v1', 'stopped', 'share'));

CREATE FUNCTION lane_is_born() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- Most often the row is there, and only its holder changes.
    IF NOT EXISTS (SELECT FROM lane l WHERE l.chain_id = NEW.chain_id AND l.signer = NEW.signer) THEN
        PERFORM FROM rollout_version FOR SHARE;
        NEW.elsewhere := stile_elsewhere(NEW.chain_id, NEW.signer);
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER lane_birth BEFORE INSERT ON lane FOR EACH ROW EXECUTE FUNCTION lane_is_born();
