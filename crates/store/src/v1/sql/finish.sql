UPDATE {schema}.stile_cutover SET state = 'STILE', at = clock_timestamp(), report = $2
WHERE signer = $1 AND state = 'FENCED'
