DELETE FROM header WHERE chain_id = $1 AND height < $2
