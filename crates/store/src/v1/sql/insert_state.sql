INSERT INTO {state} ({signer}, next_local_nonce{columns})
SELECT $1, $2{values} WHERE NOT EXISTS (SELECT FROM {state} WHERE {signer} = $1)
