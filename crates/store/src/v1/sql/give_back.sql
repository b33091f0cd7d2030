-- The first statement of a way back: from here on V1's tables may be written, by this transaction alone
-- until it commits.
UPDATE {schema}.stile_cutover SET state = 'V1', at = clock_timestamp(), report = NULL
WHERE signer = $1 AND state <> 'V1'
