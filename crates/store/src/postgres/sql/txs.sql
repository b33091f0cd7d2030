SELECT t.* FROM unnest($1::uuid[]) AS w (tx_id) JOIN tx t USING (tx_id)
