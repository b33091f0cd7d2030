-- Takes the life of every node of Stile away, as if none had been heard of. ARGV: prefix of all keys.
local prefix = ARGV[1]
local silenced = 0
for _, id in ipairs(redis.call('ZRANGE', prefix .. ':pool:{pool:stile}:members', 0, -1)) do
  local version = redis.call('GET', prefix .. ':ver:{node:' .. id .. '}')
  local incarnation = string.match(version or '', '^(%d+):')
  if incarnation then
    silenced = silenced + redis.call('DEL', prefix .. ':live:{node:' .. id .. '}:' .. incarnation)
  end
end
return silenced
