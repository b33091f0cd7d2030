-- ARGV: incarnation or '', tombstone_ttl, channel.
local incarnation, sequence, removed = version()
if not incarnation or removed then return { 'unknown', '0', '0', '[]' } end
local wanted = tonumber(ARGV[1])
if wanted and wanted < incarnation then
  return { 'stale', text(incarnation), text(sequence), '[]' }
end
sequence = sequence + 1
set_version(incarnation, sequence, ':x', ARGV[2])
local pools = redis.call('HGET', KEYS[2], 'pools') or '[]'
redis.call('DEL', live(incarnation), KEYS[2])
-- Slots that are taken stay until they are released or run out; the tick stays so that nobody takes
-- the next start of the node for one that has lost them.
redis.call('HDEL', KEYS[3], 'max')
announce(ARGV[3])
return { 'ok', text(incarnation), text(sequence), pools }
