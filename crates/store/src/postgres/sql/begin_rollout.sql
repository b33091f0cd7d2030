-- The first statement of every change of the rule: one at a time, and no lane is born meanwhile.
UPDATE rollout_version SET version = version + 1 RETURNING version
