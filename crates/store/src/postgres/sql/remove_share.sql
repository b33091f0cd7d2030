DELETE FROM rollout_share WHERE chain_id = $1
