-- Writes what the rule says into the lanes' rows, and raises their tokens, so that plans in memory die.
WITH changed AS (
    UPDATE lane l
    SET elsewhere = stile_elsewhere(l.chain_id, l.signer), fencing_token = l.fencing_token + 1,
        updated_at = clock_timestamp()
    FROM unnest($1::bigint[], $2::bytea[]) AS w (chain_id, signer)
    WHERE l.chain_id = w.chain_id AND l.signer = w.signer
      AND l.elsewhere IS DISTINCT FROM stile_elsewhere(l.chain_id, l.signer)
    RETURNING l.chain_id, l.signer, l.updated_at, l.elsewhere
), told AS (
    INSERT INTO lane_event (chain_id, signer, kind, at, node_id, data)
    SELECT c.chain_id, c.signer, $3, c.updated_at, $4, json_build_object('elsewhere', c.elsewhere)
    FROM changed c
)
SELECT c.chain_id, c.signer FROM changed c
