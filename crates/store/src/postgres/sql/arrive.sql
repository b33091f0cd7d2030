-- Takes note of where the tables live: in which server, and which tables they are. If that is another
-- place than before, they were loaded from a dump, and no lane gives anything out before it is held
-- against its chain.
WITH here AS (
    SELECT $1::text || '/' || 'lane'::regclass::oid AS place
), noted AS (
    INSERT INTO origin AS o (place) SELECT h.place FROM here h
    ON CONFLICT (one) DO UPDATE SET place = excluded.place WHERE o.place <> excluded.place
    RETURNING xmax <> 0 AS moved
)
UPDATE lane SET timeline = NULL WHERE (SELECT n.moved FROM noted n)
RETURNING chain_id, signer
