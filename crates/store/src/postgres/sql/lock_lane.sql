-- Waits for whoever is writing the lane. Nobody else does until this transaction ends.
SELECT next_nonce FROM lane WHERE chain_id = $1 AND signer = $2 FOR UPDATE
