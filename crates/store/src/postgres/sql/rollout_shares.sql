SELECT chain_id, percent FROM rollout_share
