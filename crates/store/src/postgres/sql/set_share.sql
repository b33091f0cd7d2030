INSERT INTO rollout_share (chain_id, percent) VALUES ($1, $2)
ON CONFLICT (chain_id) DO UPDATE SET percent = excluded.percent
