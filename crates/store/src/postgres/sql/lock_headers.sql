-- Every node that follows a chain writes the same rows; they take turns. Held until the commit.
SELECT pg_advisory_xact_lock(hashtextextended('stile headers', $1))
