-- Hands a lane to another node: it is that node's, under a raised token, and it has run out, so that
-- whoever should be there takes it if that node does not. Whatever the last holder still has on its
-- way is refused from here on.
-- Only to a node that has told the database of itself, with this start and this URL: whatever else a
-- holder believes of other nodes, a lane never goes to one that somebody made up.
UPDATE lane
SET owner_node = $5,
    owner_incarnation = $6,
    owner_url = $7,
    fencing_token = fencing_token + 1,
    acquired_at = clock_timestamp(),
    expires_at = clock_timestamp(),
    updated_at = clock_timestamp()
WHERE chain_id = $1 AND signer = $2 AND owner_incarnation = $3 AND fencing_token = $4
  AND EXISTS (SELECT FROM node n
              WHERE n.node_id = $5 AND n.incarnation = $6 AND n.url IS NOT DISTINCT FROM $7)
RETURNING chain_id, signer
