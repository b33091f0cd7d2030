-- Waits for whoever is writing the lane, if its mark is still the one that a person has seen, with
-- nothing stepped over since, and is open. Nobody else does until this transaction ends.
SELECT next_nonce FROM lane
WHERE chain_id = $1 AND signer = $2 AND restored_number = $3 AND restored_at = $4 AND restored_to = $5
  AND restore_settled_at IS NULL AND timeline = stile_timeline()
FOR UPDATE
