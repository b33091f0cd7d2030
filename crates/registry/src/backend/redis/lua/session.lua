-- KEYS[1] the pool of a session. ARGV: pool or '', ttl, 'anew' or ''.
local has = redis.call('GET', KEYS[1])
if has and ARGV[3] == '' then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return has
end
if ARGV[1] == '' then return false end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ARGV[1]
