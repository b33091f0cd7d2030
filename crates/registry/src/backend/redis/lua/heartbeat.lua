-- A heartbeat that changes more than what is in use; the others need no script.
-- ARGV: incarnation, sequence or '', floor sequence, node_ttl, tombstone_ttl, capacity_ttl, job_ttl,
-- usage or '', channel, then fields and values of the node that have changed.
local incarnation, sequence, removed = version()
if not incarnation then return { 'unknown', '0', '0' } end
if removed then return { 'removed', text(incarnation), text(sequence) } end
local wanted, given = tonumber(ARGV[1]), tonumber(ARGV[2])
if wanted < incarnation or (wanted == incarnation and given and given <= sequence) then
  return { 'stale', text(incarnation), text(sequence) }
end
local before = redis.call('GET', live(wanted))
if wanted > incarnation or not before then
  return { 'unknown', text(incarnation), text(sequence) }
end

-- As in register: this server has lost what the caller has seen.
local now, floor = now_ms(), tonumber(ARGV[3])
local lost = floor > sequence
sequence = given or math.max(sequence, floor) + 1
set_version(wanted, sequence, '', ARGV[4] + ARGV[5])
if #ARGV > 9 then redis.call('HSET', KEYS[2], unpack(ARGV, 10)) end
redis.call('PEXPIRE', KEYS[2], ARGV[4] + ARGV[5])
local usage = ARGV[8] ~= '' and ARGV[8] or string.match(before, '^%d+:%d+:(.*)$')
set_live(wanted, sequence, ARGV[4], usage)

local running, reserved = count_slots(now)
redis.call('HSET', KEYS[3], 'max', redis.call('HGET', KEYS[2], 'max') or '0', 'running', running,
  'reserved', reserved)
if lost then redis.call('HSET', KEYS[3], 'hold', now + ARGV[7]) end
redis.call('PEXPIRE', KEYS[3], ARGV[6])
announce(ARGV[9])
return written(wanted, sequence, now, running, reserved)
