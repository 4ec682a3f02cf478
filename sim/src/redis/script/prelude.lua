-- What a Redis server puts around every script: the table `redis`, deterministic chance, and a lock on globals.
-- Gets the functions written in Rust; returns the one that runs a script.
local native = ...
local raw, real_pcall = nil, pcall
redis = {
  LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
  REPL_NONE = 0, REPL_AOF = 1, REPL_SLAVE = 2, REPL_REPLICA = 2, REPL_ALL = 3,
}
function redis.call(...)
  local reply, failed = raw(...)
  if failed then error(reply, 0) end
  return reply
end
function redis.pcall(...)
  return (raw(...))
end
function redis.error_reply(...)
  local text = ...
  if select('#', ...) ~= 1 or type(text) ~= 'string' then return {err = 'ERR wrong number or type of arguments'} end
  if string.sub(text, 1, 1) == '-' then text = string.sub(text, 2) end
  if not string.find(text, ' ', 1, true) then text = 'ERR ' .. text end
  return {err = text}
end
function redis.status_reply(...)
  local text = ...
  if select('#', ...) ~= 1 or type(text) ~= 'string' then return {err = 'ERR wrong number or type of arguments'} end
  return {ok = text}
end
redis.sha1hex = native.sha1hex
function redis.log() end
function redis.setresp(version)
  if version ~= 2 then error({err = 'ERR the simulated server gives scripts the old protocol only'}, 0) end
end
function redis.replicate_commands() return true end
function redis.set_repl() end
-- A table that was thrown arrives as its text.
function pcall(...)
  local function pass(good, first, ...)
    if not good and type(first) == 'table' and first.err ~= nil then first = first.err end
    return good, first, ...
  end
  return pass(real_pcall(...))
end
bit, struct = native.bit, native.struct
os = {clock = function() return 0 end}
local state = 0
function math.randomseed(seed) state = math.floor(tonumber(seed) or 0) % 2147483648 end
function math.random(low, high)
  state = (state * 1103515245 + 12345) % 2147483648
  local part = state / 2147483648
  if not low then return part end
  if not high then low, high = 1, low end
  return low + math.floor(part * (high - low + 1))
end
for _, name in ipairs({'dofile', 'loadfile', 'print', 'require', 'module', 'package', 'newproxy', 'collectgarbage'}) do
  rawset(_G, name, nil)
end
setmetatable(_G, {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
  __newindex = function(_, name)
    error("Script attempted to create global variable '" .. tostring(name) .. "'", 2)
  end,
})
return function(script, call)
  raw, state = call, 0
  local good, result = real_pcall(script)
  raw = nil
  return good, result
end
