-- The chain shows more of a lane than the database: it is to be held against its chain before it gives
-- out anything. Behind the fence. One that is to be held against it for another reason stays as it is, and
-- does not come back.
UPDATE lane SET timeline = NULL WHERE chain_id = $1 AND signer = $2 AND timeline = stile_timeline()
RETURNING signer
