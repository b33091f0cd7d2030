-- A planted bug: a lane that is given back is forgotten, and its token with it.
DELETE FROM lane l
USING unnest($1::bigint[], $2::bytea[], $3::uuid[], $4::bigint[])
    AS c (chain_id, signer, incarnation, token)
WHERE l.chain_id = c.chain_id AND l.signer = c.signer
  AND l.owner_incarnation = c.incarnation AND l.fencing_token = c.token
RETURNING l.chain_id, l.signer
