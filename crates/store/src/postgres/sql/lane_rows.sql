-- Lane rows as they stand, with what is left of each lease.
SELECT l.chain_id, l.signer, l.owner_node, l.owner_incarnation, l.owner_url, l.fencing_token,
       l.expires_at, l.next_nonce, l.last_chain_nonce, l.paused, l.elsewhere,
       l.restored_at, l.restored_from, l.restored_to, l.restore_settled_at, l.restored_number, l.restored_begun,
       l.next_nonce IS NULL OR coalesce(l.timeline = stile_timeline(), false) AS aligned,
       greatest(extract(epoch FROM l.expires_at - clock_timestamp()), 0)::float8 AS remaining_secs
FROM unnest($1::bigint[], $2::bytea[]) AS w (chain_id, signer)
JOIN lane l USING (chain_id, signer)
