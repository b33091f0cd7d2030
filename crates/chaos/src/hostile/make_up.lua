-- Makes up nodes of Stile, as whoever can write to Redis can. ARGV: prefix of all keys, URL, first and
-- last number, life in milliseconds. They serve what the nodes serve that are there, and take lanes.
local prefix, url, first, last, life = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local pool = prefix .. ':pool:{pool:stile}:members'
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local model = { mode = 'worker-queue', serves = '', version = '0' }
for _, id in ipairs(redis.call('ZRANGE', pool, 0, -1)) do
  local known = redis.call('HGET', prefix .. ':node:{node:' .. id .. '}', 'features')
  if known and not string.find(id, '^made%-up') then model = cjson.decode(known) end
end
model.url, model.draining, model.mode = url, false, 'worker-queue'
for number = first, last do
  local id = 'made-up-' .. number
  model.incarnation = string.format('%08x-0000-4000-8000-%012x', number, number)
  local key = function(kind) return prefix .. ':' .. kind .. ':{node:' .. id .. '}' end
  redis.call('SET', key('ver'), now .. ':1', 'PX', life)
  redis.call('HSET', key('node'), 'status', 'online', 'health', 'Online', 'pools', '["stile"]',
    'services', '{}', 'installed', '[]', 'features', cjson.encode(model), 'max', '0')
  redis.call('PEXPIRE', key('node'), life)
  redis.call('SET', key('live') .. ':' .. now, '1:' .. life .. ':0::0', 'PX', life)
  redis.call('ZADD', pool, now, id)
  redis.call('ZADD', prefix .. ':nodes:online', now, id)
end
return last - first + 1
