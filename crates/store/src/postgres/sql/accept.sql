-- Accepts transactions, each with the first entry of its history. One whose request id is taken, by
-- an earlier one or by another of this list, does not come back. Positions are drawn in the list's
-- order; rows are inserted in the order of the unique index, so that two lists with the same
-- request ids cannot deadlock.
-- Nothing is accepted for a lane that is not Stile's: such lanes come back instead. Whoever changes the
-- owner of a lane waits for this commit, or this waits for that one and sees it.
-- While a backup is being loaded into the tables, the index that makes a request id one transaction is
-- not there yet, or not valid yet. `guarded` inserts nothing: it names what has to be unique, and fails
-- where no valid index of this table makes it so.
WITH elsewhere AS MATERIALIZED (
    SELECT e.chain_id, e.signer, e.elsewhere FROM stile_lanes_elsewhere($3, $4) e
), wanted AS (
    SELECT w.*, nextval('tx_position') AS position
    FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::bytea[], $5::text[], $6::bytea[], $7::json[],
                $8::text[], $9::bigint[], $10::uuid[])
        AS w (tx_id, tenant, chain_id, signer, request_id, request_hash, payload, finality, gas_limit, replaces)
), guarded AS (
    INSERT INTO tx (tx_id, tenant, chain_id, signer, request_hash, payload, finality, state, events,
                    created_at, updated_at)
    SELECT w.tx_id, w.tenant, w.chain_id, w.signer, w.request_hash, w.payload, w.finality, $11, 1,
           statement_timestamp(), statement_timestamp()
    FROM wanted w
    WHERE false
    ON CONFLICT (tenant, chain_id, signer, request_id) WHERE request_id IS NOT NULL DO NOTHING
), accepted AS (
    INSERT INTO tx (tx_id, position, tenant, chain_id, signer, request_id, request_hash, payload, finality,
                    gas_limit, replaces, state, sub_state, events, created_at, updated_at)
    SELECT w.tx_id, w.position, w.tenant, w.chain_id, w.signer, w.request_id, w.request_hash, w.payload,
           w.finality, w.gas_limit, w.replaces, $11, $12, 1, statement_timestamp(), statement_timestamp()
    FROM wanted w
    WHERE NOT EXISTS (SELECT FROM elsewhere e WHERE e.chain_id = w.chain_id AND e.signer = w.signer)
    ORDER BY w.tenant, w.chain_id, w.signer, w.request_id, w.position
    ON CONFLICT DO NOTHING
    RETURNING tx_id, position, tenant, chain_id, signer, created_at
), told AS (
    INSERT INTO tx_event (tx_id, seq, tenant, chain_id, signer, kind, state, sub_state, at, node_id, data)
    SELECT a.tx_id, 1, a.tenant, a.chain_id, a.signer, $13, $11, $12, a.created_at, $14, '{}'
    FROM accepted a
    ORDER BY a.position
)
SELECT a.tx_id, a.position, a.created_at, a.chain_id, a.signer, NULL AS elsewhere FROM accepted a
UNION ALL
SELECT NULL, NULL, NULL, e.chain_id, e.signer, e.elsewhere FROM elsewhere e
