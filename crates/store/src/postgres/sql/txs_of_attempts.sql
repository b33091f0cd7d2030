SELECT a.hash, a.tx_id FROM unnest($1::bytea[]) AS w (hash) JOIN attempt a USING (hash)
