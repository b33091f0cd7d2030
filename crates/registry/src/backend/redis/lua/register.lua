-- ARGV: incarnation or '', floor incarnation, floor sequence, node_ttl, tombstone_ttl, capacity_ttl,
-- job_ttl, usage, channel, max, then fields and values of the node.
local now = now_ms()
local incarnation, sequence, removed = version()
local before = incarnation
incarnation = incarnation or 0
local floor_incarnation, floor_sequence = tonumber(ARGV[2]), tonumber(ARGV[3])

-- The caller has seen a later version than this server knows: it has lost some of what it was told,
-- perhaps slots too. None are given out until all of those have run out.
local here, gave_out = server(), redis.call('HGET', KEYS[3], 'server')
local lost = later(floor_incarnation, floor_sequence, incarnation, sequence)
local moved = gave_out and gave_out ~= here
if lost then
  incarnation, sequence, removed = floor_incarnation, floor_sequence, false
end

local wanted = tonumber(ARGV[1])
if not wanted then
  wanted = math.max(incarnation + 1, now)
  sequence = 1
elseif wanted > incarnation then
  sequence = 1
elseif wanted == incarnation and not removed then
  sequence = sequence + 1
else
  return { removed and 'removed' or 'stale', text(incarnation), text(sequence) }
end

set_version(wanted, sequence, '', ARGV[4] + ARGV[5])
if before then redis.call('DEL', live(before)) end
set_live(wanted, sequence, ARGV[4], ARGV[8])
redis.call('DEL', KEYS[2])
redis.call('HSET', KEYS[2], unpack(ARGV, 11))
redis.call('PEXPIRE', KEYS[2], ARGV[4] + ARGV[5])
local running, reserved = count_slots(now)
redis.call('HSET', KEYS[3], 'max', ARGV[10], 'running', running, 'reserved', reserved,
  'server', here)
if lost or moved then redis.call('HSET', KEYS[3], 'hold', now + ARGV[7]) end
redis.call('PEXPIRE', KEYS[3], ARGV[6])
announce(ARGV[9])
return written(wanted, sequence, now, running, reserved)
