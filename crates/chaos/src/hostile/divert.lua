-- Says of every node of Stile that it is reached elsewhere. ARGV: prefix of all keys, URL. Everything
-- else stays what the node has said itself.
local prefix, url = ARGV[1], ARGV[2]
local diverted = 0
for _, id in ipairs(redis.call('ZRANGE', prefix .. ':pool:{pool:stile}:members', 0, -1)) do
  local key = function(kind) return prefix .. ':' .. kind .. ':{node:' .. id .. '}' end
  local known, version = redis.call('HGET', key('node'), 'features'), redis.call('GET', key('ver'))
  local incarnation, sequence = string.match(version or '', '^(%d+):(%d+)$')
  if known and incarnation then
    local features = cjson.decode(known)
    features.url = url
    redis.call('HSET', key('node'), 'features', cjson.encode(features))
    redis.call('SET', key('ver'), incarnation .. ':' .. string.format('%.0f', sequence + 1), 'KEEPTTL')
    diverted = diverted + 1
  end
end
return diverted
