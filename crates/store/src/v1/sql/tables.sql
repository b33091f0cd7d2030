-- The two tables of V1, in the schema that the connection looks in first: which set of names they bear.
SELECT n.nspname AS schema, c.relname AS state_table, a.relname AS allocation_table
FROM (VALUES ('submitter_nonce_state', 'submitter_nonce_allocation'),
             ('signer_nonce_state', 'signer_nonce_allocation')) AS w (state_table, allocation_table)
JOIN pg_class c ON c.oid = to_regclass(w.state_table)
JOIN pg_class a ON a.oid = to_regclass(w.allocation_table) AND a.relnamespace = c.relnamespace
JOIN pg_namespace n ON n.oid = c.relnamespace
