-- ARGV: job, job_ttl, capacity_ttl.
local now = now_ms()
count_slots(now)
local promised = redis.call('ZREM', KEYS[4], ARGV[1])
if promised == 0 and not redis.call('ZSCORE', KEYS[5], ARGV[1]) then return { 'gone' } end
local until_ms = text(now + ARGV[2])
redis.call('ZADD', KEYS[5], until_ms, ARGV[1])
redis.call('HSET', KEYS[3], 'running', redis.call('ZCARD', KEYS[5]), 'reserved',
  redis.call('ZCARD', KEYS[4]))
redis.call('HINCRBY', KEYS[3], 'tick', 1)
redis.call('PEXPIRE', KEYS[3], ARGV[3])
redis.call('PEXPIRE', KEYS[5], ARGV[3])
return { 'ok', until_ms }
