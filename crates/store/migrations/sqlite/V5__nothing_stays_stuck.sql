-- See the PostgreSQL migration for what each is for.
ALTER TABLE attempt ADD COLUMN kind TEXT NOT NULL DEFAULT 'SEND'
    CHECK (kind IN ('SEND', 'BUMP', 'CANCEL', 'GIVE_UP'));

ALTER TABLE tx ADD COLUMN rival TEXT CHECK (json_valid(rival));
ALTER TABLE tx ADD COLUMN rival_block INTEGER
    CHECK (rival_block >= 0) CHECK ((rival IS NULL) = (rival_block IS NULL));
ALTER TABLE tx ADD COLUMN wish TEXT CHECK (json_valid(wish));
ALTER TABLE tx ADD COLUMN replaces BLOB CHECK (length(replaces) = 16);
ALTER TABLE tx ADD COLUMN replaced_by BLOB CHECK (length(replaced_by) = 16);
ALTER TABLE tx ADD COLUMN done_block INTEGER GENERATED ALWAYS AS (CASE state
    WHEN 'CONFIRMED' THEN block_number WHEN 'FAILED' THEN rival_block END) VIRTUAL;

DROP INDEX tx_done;
CREATE INDEX tx_done ON tx (chain_id, signer, done_block) WHERE done_block IS NOT NULL;
CREATE UNIQUE INDEX tx_replaces ON tx (replaces) WHERE replaces IS NOT NULL;
CREATE INDEX tx_wish ON tx (chain_id, signer) WHERE wish IS NOT NULL;

-- Its places and those of tx_event are one order: each takes its number from the counter of tx_event,
-- which SQLite keeps in a table of its own and never sets back.
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

CREATE INDEX lane_event_of_lane ON lane_event (chain_id, signer, entry);

-- The counter is there only once it was used.
INSERT INTO sqlite_sequence (name, seq)
    SELECT 'tx_event', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'tx_event');
