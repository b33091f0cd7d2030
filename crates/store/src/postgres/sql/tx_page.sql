-- A tenant's transactions, newest first.
SELECT t.* FROM tx t
WHERE t.tenant = $1 AND t.position < $2 AND ($3::text IS NULL OR t.state = $3)
ORDER BY t.position DESC
LIMIT $4
