SELECT l.elsewhere FROM lane l WHERE l.chain_id = $1 AND l.signer = $2 FOR UPDATE
