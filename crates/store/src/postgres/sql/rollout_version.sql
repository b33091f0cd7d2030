SELECT version FROM rollout_version
