SELECT signer, state, chain_id, address, at, report FROM {schema}.stile_cutover
