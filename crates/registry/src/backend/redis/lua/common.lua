-- What all scripts begin with. Every script touches keys of one hash slot only, takes the time from
-- the server and none from its caller.
--
-- The keys of a node, all with the hash tag {node:ID}:
--   KEYS[1] ver       string: INCARNATION:SEQUENCE, and :x behind it once the node was removed. Kept for
--                     long after the node's end, so that nothing older is believed meanwhile
--   KEYS[2] node      hash: what the node says of itself; changes with the version
--   KEYS[3] cap       hash: max, running, reserved, tick (rises with each change), hold (no slot
--                     before), server (which one the slots were given out by)
--   KEYS[4] reserved  sorted set: jobs that were promised a slot, by when that runs out
--   KEYS[5] running   sorted set: jobs that have one, by when that runs out
--   KEYS[6] live:     with the incarnation behind it, string: SEQUENCE:LIFE:CPU:GPU:MEMORY, the life
--                     in milliseconds and the shares in use. There is one for the latest start of the
--                     node while that lives, and none for any other: whoever can prolong it without
--                     making it (SET … XX) speaks for the start that lives.

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Numbers above 10^14 would be written as 1.7e+15 otherwise.
local function text(number)
  return string.format('%.0f', number)
end

local function version()
  local found = redis.call('GET', KEYS[1])
  if not found then return nil, 0, false end
  local incarnation, sequence, removed = string.match(found, '^(%d+):(%d+)(:?x?)$')
  return tonumber(incarnation), tonumber(sequence), removed ~= ''
end

local function set_version(incarnation, sequence, mark, ttl)
  redis.call('SET', KEYS[1], text(incarnation) .. ':' .. text(sequence) .. mark, 'PX', ttl)
end

-- The key of a start.
local function live(incarnation)
  return KEYS[6] .. text(incarnation)
end

local function set_live(incarnation, sequence, life, usage)
  redis.call('SET', live(incarnation), text(sequence) .. ':' .. life .. ':' .. usage, 'PX', life)
end

-- Which server this is. One that has taken over from another, or been started again, may have missed
-- the last slots that were given out.
local function server()
  return string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or ''
end

-- Forgets slots that have run out and counts the others.
local function count_slots(now)
  redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now)
  redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', now)
  return redis.call('ZCARD', KEYS[5]), redis.call('ZCARD', KEYS[4])
end

local function later(incarnation, sequence, than_incarnation, than_sequence)
  return incarnation > than_incarnation
    or (incarnation == than_incarnation and sequence > than_sequence)
end

-- Tells those who subscribe that the first key has changed.
local function announce(channel)
  if channel ~= '' then redis.call('PUBLISH', channel, KEYS[1]) end
end

-- The whole node, as it was written just now.
local function written(incarnation, sequence, now, running, reserved)
  return { 'ok', text(incarnation), text(sequence), text(now), running, reserved,
    redis.call('HGET', KEYS[3], 'tick') or '0', redis.call('GET', live(incarnation)),
    redis.call('HGETALL', KEYS[2]) }
end
