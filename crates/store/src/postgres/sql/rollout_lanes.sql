SELECT chain_id, signer, owner FROM rollout_lane
