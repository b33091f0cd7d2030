UPDATE {schema}.stile_cutover SET state = 'V1', at = clock_timestamp(), report = NULL
WHERE signer = $1 AND state = 'FENCED'
