-- What the database has of transactions that a node remembers, and of one attempt of each. Asked behind
-- the fence.
SELECT w.place, t.tx_id IS NOT NULL AS known, coalesce(t.state = 'CREATED', false) AS waits,
       EXISTS (SELECT FROM attempt a WHERE a.tx_id = w.tx_id AND a.hash = w.hash) AS written
FROM unnest($1::uuid[], $2::bytea[]) WITH ORDINALITY AS w (tx_id, hash, place)
LEFT JOIN tx t USING (tx_id)
