-- KEYS[1] sorted set of names by last heartbeat. ARGV: node_ttl. Who has been silent for too long
-- falls out.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. text(now_ms() - ARGV[1]))
return redis.call('ZRANGE', KEYS[1], 0, -1)
