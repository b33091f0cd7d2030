SELECT w.chain_id, w.signer, open.held, open.suspect, open.gaps, flying.in_flight, waiting.queued
FROM unnest($1::bigint[], $2::bytea[]) AS w (chain_id, signer)
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE n.status = 'HELD') AS held,
           count(*) FILTER (WHERE n.status = 'SUSPECT') AS suspect,
           coalesce((array_agg(n.nonce ORDER BY n.nonce) FILTER (WHERE n.status = 'RELEASED'))[1:100], '{}') AS gaps
    FROM nonce n
    WHERE n.chain_id = w.chain_id AND n.signer = w.signer AND n.status <> 'CONSUMED'
) open
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE t.state <> 'TRACKING' AND t.rival_block IS NULL) AS in_flight
    FROM tx t
    WHERE t.chain_id = w.chain_id AND t.signer = w.signer AND t.phase = 'OPEN'
) flying
CROSS JOIN LATERAL (
    SELECT count(*) AS queued
    FROM tx t
    WHERE t.chain_id = w.chain_id AND t.signer = w.signer AND t.phase = 'WAITING'
) waiting
