-- Headers that are canonical no longer.
SELECT h.height, h.hash, h.parent FROM header h
WHERE h.chain_id = $1 AND h.replaced_at IS NOT NULL
ORDER BY h.height
