-- Takes note of where the tables live: in which server and database, and which tables they are. If that
-- is another place than before, they were loaded from a dump or copied with their database, and no lane
-- gives anything out before it is held against its chain.
WITH here AS (
    SELECT $1::text || '/' || stile_place() AS place
), noted AS (
    INSERT INTO origin AS o (place) SELECT h.place FROM here h
    ON CONFLICT (one) DO UPDATE SET place = excluded.place WHERE o.place <> excluded.place
    RETURNING xmax <> 0 AS moved
)
UPDATE lane SET timeline = NULL WHERE (SELECT n.moved FROM noted n)
RETURNING chain_id, signer
