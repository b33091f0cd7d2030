SELECT n.nonce FROM nonce n WHERE n.chain_id = $1 AND n.signer = $2 ORDER BY n.nonce DESC LIMIT 1
