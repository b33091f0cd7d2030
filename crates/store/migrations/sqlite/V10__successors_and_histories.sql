-- See the PostgreSQL migration for what each is for. Acceptance looks at the rule by itself here: there
-- is one writer at a time.
CREATE TRIGGER tx_with_successor_stays_closed BEFORE UPDATE ON tx
    WHEN OLD.replaced_by IS NOT NULL AND OLD.state = 'FAILED' AND NEW.state <> 'FAILED'
         AND NOT EXISTS (SELECT 1 FROM tx s
                         WHERE s.tx_id = OLD.replaced_by AND s.state = 'FAILED' AND s.nonce IS NULL)
    BEGIN SELECT RAISE(ABORT, 'transaction: it has a successor and is never sent again'); END;

-- A history begins with the file, and anew whenever an older copy is put back. What it has reached is
-- written when the next one begins: the counter as it was found.
CREATE TABLE stream_history (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    history  INTEGER NOT NULL UNIQUE CHECK (history > 0),
    began    INTEGER NOT NULL,
    -- NULL for the one that goes on.
    reached  INTEGER
) STRICT;

INSERT INTO stream_history (history, began)
    SELECT (random() & 9223372036854775807) | 1, seq FROM sqlite_sequence WHERE name = 'tx_event';

-- Which start of a server wrote the file last, and which one before it, until the log has been folded
-- into the file. The file by itself and the file with its log name the same one, or the log is that of
-- another file.
ALTER TABLE origin ADD COLUMN run TEXT;
ALTER TABLE origin ADD COLUMN run_before TEXT;
