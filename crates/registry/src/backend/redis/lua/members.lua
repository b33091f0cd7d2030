-- KEYS[1] sorted set of names by last heartbeat. ARGV: node_ttl, most names. Who has been silent for
-- too long falls out; of more than there is room for, those heard of last are told.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. text(now_ms() - ARGV[1]))
return redis.call('ZRANGE', KEYS[1], -ARGV[2], -1)
