-- ARGV: job, 'reserved' or 'running', job_ttl, capacity_ttl, tombstone_ttl, known incarnation, known
-- sequence, known tick. What the caller knows of the node and its slots; a server that knows less has
-- lost some of it.
local now = now_ms()
local incarnation, sequence, removed = version()
local known_incarnation, known_sequence, known_tick =
  tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local capacity = redis.call('HMGET', KEYS[3], 'max', 'tick', 'hold', 'server')
local max, tick, hold = tonumber(capacity[1]), tonumber(capacity[2] or '0'), tonumber(capacity[3])

local here = server()
local moved = capacity[4] and capacity[4] ~= here

-- Nobody gets a slot until everything that may have been lost has run out.
if moved or later(known_incarnation, known_sequence, incarnation or 0, sequence)
  or known_tick > tick then
  if incarnation and not removed
    and later(known_incarnation, known_sequence, incarnation, sequence) then
    set_version(known_incarnation, known_sequence, '', ARGV[5])
  end
  redis.call('HSET', KEYS[3], 'tick', math.max(tick, known_tick), 'hold', now + ARGV[3],
    'server', here)
  redis.call('PEXPIRE', KEYS[3], ARGV[4])
  return { 'recovering' }
end

if not incarnation or removed or not max then return { 'gone' } end
if redis.call('EXISTS', live(incarnation)) == 0 then return { 'gone' } end
local said = redis.call('HMGET', KEYS[2], 'status', 'health')
if said[1] ~= 'online' or said[2] ~= 'Online' then return { 'gone' } end
if hold then
  if hold > now then return { 'recovering' } end
  redis.call('HDEL', KEYS[3], 'hold')
end

local running, reserved = count_slots(now)
local has = redis.call('ZSCORE', KEYS[4], ARGV[1]) or redis.call('ZSCORE', KEYS[5], ARGV[1])
if not has then
  if running + reserved >= max then
    redis.call('HSET', KEYS[3], 'running', running, 'reserved', reserved)
    return { 'full', max, running, reserved, text(tick) }
  end
  has = text(now + ARGV[3])
  if ARGV[2] == 'running' then
    redis.call('ZADD', KEYS[5], has, ARGV[1])
    running = running + 1
  else
    redis.call('ZADD', KEYS[4], has, ARGV[1])
    reserved = reserved + 1
  end
  tick = tick + 1
  redis.call('HSET', KEYS[3], 'running', running, 'reserved', reserved, 'tick', text(tick))
  redis.call('PEXPIRE', KEYS[3], ARGV[4])
  redis.call('PEXPIRE', KEYS[4], ARGV[4])
  redis.call('PEXPIRE', KEYS[5], ARGV[4])
end
return { 'taken', max, running, reserved, text(tick), has }
