-- The nodes that share this database, as they tell of themselves. It decides nothing about who may
-- write what; it says where lanes had best be, and whom to ask.
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

CREATE TRIGGER node_rules BEFORE UPDATE ON node
WHEN NEW.incarnation <> OLD.incarnation AND NEW.started_at <= OLD.started_at
BEGIN
    SELECT RAISE(ABORT, 'a process never takes the place of one that started later');
END;
