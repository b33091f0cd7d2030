SELECT next_local_nonce::bigint AS next_local_nonce FROM {state} WHERE {signer} = $1
