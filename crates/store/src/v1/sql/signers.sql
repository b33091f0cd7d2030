SELECT {signer}::text AS signer FROM {state} WHERE {signer} IS NOT NULL
UNION
SELECT {signer}::text FROM {allocation} WHERE {signer} IS NOT NULL
ORDER BY signer
