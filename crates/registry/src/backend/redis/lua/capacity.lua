-- What the capacity record says now, without the slots that have run out.
local incarnation = version()
if not incarnation or redis.call('EXISTS', live(incarnation)) == 0 then return {} end
local running, reserved = count_slots(now_ms())
local said = redis.call('HMGET', KEYS[3], 'max', 'running', 'reserved', 'tick')
if said[2] ~= text(running) or said[3] ~= text(reserved) then
  redis.call('HSET', KEYS[3], 'running', running, 'reserved', reserved)
end
return { said[1] or '0', running, reserved, said[4] or '0' }
