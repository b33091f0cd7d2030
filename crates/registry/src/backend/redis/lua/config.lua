-- KEYS[1] hash: value, version, at. ARGV: expected version, value, floor, channel. The floor is what the
-- caller's instance has seen: a server that knows less has lost it, and who has read it goes on from it. A
-- version begins with the time, so that one written after everything was lost is later than those before.
local now = now_ms()
local current = math.max(tonumber(redis.call('HGET', KEYS[1], 'version') or '0'), tonumber(ARGV[3]))
if current ~= tonumber(ARGV[1]) then return { 'conflict', text(current), '0' } end
local version = current + 1
if current == 0 then version = math.max(version, now) end
redis.call('HSET', KEYS[1], 'value', ARGV[2], 'version', text(version), 'at', text(now))
announce(ARGV[4])
return { 'ok', text(version), text(now) }
