UPDATE {state} SET next_local_nonce = greatest(next_local_nonce, $2){touched} WHERE {signer} = $1
