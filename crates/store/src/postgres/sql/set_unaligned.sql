-- The chain shows more of a lane than the database: it is to be held against its chain before it gives
-- out anything. Behind the fence.
UPDATE lane SET timeline = NULL WHERE chain_id = $1 AND signer = $2
