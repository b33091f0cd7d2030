-- The nodes that share this database, as they tell of themselves. It decides nothing about who may
-- write what; it says where lanes had best be, and whom to ask.
CREATE TABLE node (
    node_id     text        PRIMARY KEY CHECK (node_id <> ''),
    incarnation uuid        NOT NULL,
    url         text,
    mode        text        NOT NULL CHECK (mode IN ('basic', 'worker-queue')),
    -- Nodes that serve the same lanes with the same keys have the same text here. Only between those
    -- do lanes move.
    serves      text        NOT NULL,
    started_at  timestamptz NOT NULL,
    seen_at     timestamptz NOT NULL,
    -- It is about to end and takes no more lanes.
    draining    boolean     NOT NULL DEFAULT false,
    CHECK (started_at <= seen_at)
);

COMMENT ON TABLE node IS 'Who shares this database, and when it was last heard of';

CREATE FUNCTION node_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'node %: a process never takes the place of one that started later', OLD.node_id
        USING ERRCODE = 'check_violation';
END $$;

CREATE TRIGGER node_rules BEFORE UPDATE ON node FOR EACH ROW
    WHEN (NEW.incarnation <> OLD.incarnation AND NEW.started_at <= OLD.started_at)
    EXECUTE FUNCTION node_refuse();
