-- ARGV: job, capacity_ttl. Only this job's own slot is freed, however often it is said.
local running, reserved = count_slots(now_ms())
local released = redis.call('ZREM', KEYS[4], ARGV[1])
reserved = reserved - released
local ended = redis.call('ZREM', KEYS[5], ARGV[1])
running = running - ended
if released + ended == 0 then return 0 end
redis.call('HSET', KEYS[3], 'running', running, 'reserved', reserved)
redis.call('HINCRBY', KEYS[3], 'tick', 1)
redis.call('PEXPIRE', KEYS[3], ARGV[2])
return 1
