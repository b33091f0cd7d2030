-- Transactions in whose place another one was made than is asked for here.
SELECT t.replaces FROM unnest($1::uuid[], $2::uuid[]) AS w (tx_id, replaces)
JOIN tx t ON t.replaces = w.replaces AND t.tx_id <> w.tx_id
