-- Meets one change set with the records found: checks everything it expects, works out every write, and only then
-- makes them. It knows what an attribute record looks like, and no rule of the file system.
--
-- ARGV is a row of words read from left to right; words that name keys are places in KEYS. Numbers of 64 bits are
-- kept as bytes, or as a high and a low part, since numbers here are doubles.
-- Answers {1, attributes, lists, numbers} when done, {0, values of everything expected} on a conflict, {2, text}
-- when a record is damaged; in the last two cases nothing was written. Of a list there is only the length, where it was
-- as long as the asker knows it and all was appended that was to be, and nothing else done to it.
local at, call = 0, redis.call
local function word() at = at + 1 return ARGV[at] end
local function num() return tonumber(word()) end
local function key() return KEYS[num()] end
local byte, sub, fmt = string.byte, string.sub, string.format

-- A place of a record: how it is read, and where it is.
local function place()
  local p = { kind = word(), key = key() }
  if p.kind == 'q' then p.key2 = key() p.key3 = key() end
  if p.kind ~= 's' and p.kind ~= 'l' and p.kind ~= 'a' then p.field = word() end
  return p
end
local function look(p)
  local kind = p.kind
  if kind == 's' then return call('GET', p.key) end
  if kind == 'h' then return call('HGET', p.key, p.field) end
  if kind == 'l' then return call('LRANGE', p.key, 0, -1) end
  if kind == 'z' then return call('ZSCORE', p.key, p.field) end
  if kind == 'm' then return call('SISMEMBER', p.key, p.field) end
  if kind == 'a' then return call('HGETALL', p.key) end
  return { call('HGET', p.key, p.field), call('HGET', p.key2, p.field), call('HGET', p.key3, p.field) }
end
local function values()
  local n, list = num(), {}
  for i = 1, n do list[i] = word() end
  return list
end
local function is_absent(p, found)
  if p.kind == 'l' or p.kind == 'a' then return #found == 0 end
  if p.kind == 'm' then return found == 0 end
  if p.kind == 'q' then return not found[1] and not found[2] and not found[3] end
  return not found
end
local function is_same(p, found, wanted)
  if p.kind == 'm' then return found == 1 end
  if p.kind == 'z' then return found and tonumber(found) == tonumber(wanted[1]) end
  if p.kind == 's' or p.kind == 'h' then return found == wanted[1] end
  if #found ~= #wanted then return false end
  if p.kind == 'a' then
    local map = {}
    for i = 1, #wanted, 2 do map[wanted[i]] = wanted[i + 1] end
    for i = 1, #found, 2 do if map[found[i]] ~= found[i + 1] then return false end end
    return true
  end
  for i = 1, #wanted do if (found[i] or '0') ~= wanted[i] then return false end end
  return true
end

-- Attribute records. Places count from 1: 1 flags, 2 type and mode, 4 uid, 8 gid, 12 24 36 times, 48 nlink,
-- 52 length, 60 device, 64 parent, 72 rules where 8 bytes or more are left, then a tier.
local NONE = string.rep('\0', 8)
local function part(v, from, to)
  local p = sub(v, from, to)
  if #p < to - from + 1 then return string.rep('\0', to - from + 1) end
  return p
end
local function same_part(a, b, from, to) return part(a, from, to) == part(b, from, to) end
local function kind_of(v) return math.floor(byte(v, 2) / 16) end
local function agree(found, seen, fields)
  if #found < 63 or kind_of(found) ~= kind_of(seen) then return false end
  local has = function(c) return string.find(fields, c, 1, true) end
  return (not has('a') or same_part(found, seen, 1, 11) and part(found, 72, 79) == part(seen, 72, 79))
    and (not has('n') or same_part(found, seen, 48, 51)) and (not has('l') or same_part(found, seen, 52, 59))
    and (not has('p') or same_part(found, seen, 64, 71)) and (not has('t') or same_part(found, seen, 12, 47))
end

local fresh, hold = {}, true
for i = 1, num() do
  local what = word()
  if what == 'E' then
    local entries, attr = key(), key()
    hold = hold and call('EXISTS', entries) == 0
    fresh[i] = call('GET', attr)
  else
    local p = place()
    local found = look(p)
    fresh[i] = found
    if what == 'A' then hold = hold and is_absent(p, found)
    elseif what == 'S' then hold = is_same(p, found, values()) and hold
    else
      local seen, fields = word(), word()
      hold = found and agree(found, seen, fields) and hold
    end
  end
end
if not hold then return { 0, fresh } end

-- What is to be done, in order, once everything is worked out.
local todo, attrs, shown, lists, numbers = {}, {}, {}, {}, {}
-- What lists and statistics will be, where this change set sets them.
local chunks, stated = {}, {}
-- Lists that this change set appends to: their lengths before it, what is added, and whether all of it was.
local tails = {}
local broken
local function put(...) todo[#todo + 1] = { ... } end
local function push(cmd, k, v)
  for i = 1, #v, 1000 do put(cmd, k, unpack(v, i, math.min(i + 999, #v))) end
end
local function attr_of(k)
  local v = attrs[k]
  if v == nil then v = call('GET', k) attrs[k] = v end
  if not v or #v < 63 then broken = k return nil end
  return v
end
local function long(v, from)
  local a, b, c, d, e, f, g, h = byte(v, from, from + 7)
  return ((a * 256 + b) * 256 + c) * 256 + d, ((e * 256 + f) * 256 + g) * 256 + h
end
local function decimal(v, from)
  local digits, text = { byte(v, from, from + 7) }, ''
  repeat
    local rest, more = 0, false
    for i = 1, 8 do
      local n = rest * 256 + digits[i]
      digits[i] = math.floor(n / 10)
      rest = n % 10
      more = more or digits[i] > 0
    end
    text = rest .. text
  until not more
  return text
end
-- Adds high * 2^32 + low with the given command; in two steps where one double can't hold the sum.
local function add(high, low, ...)
  local cmd = { ... }
  local function step(n)
    if n ~= 0 then
      local c = {}
      for i = 1, #cmd do c[i] = cmd[i] end
      c[#c + 1] = fmt('%.0f', n)
      todo[#todo + 1] = c
    end
  end
  if math.abs(high) < 1048576 then step(high * 4294967296 + low) else step(high * 4294967296) step(low) end
end
-- Bytes and space of a node in statistics and usage, each in two parts.
local function shows(v)
  if kind_of(v) ~= 1 then return 0, 0, 0, 4096 end
  local high, low = long(v, 52)
  local up, space = high, low + 4095
  space = space - space % 4096
  if space >= 4294967296 then up = up + 1 space = space - 4294967296 end
  if high == 0 and low == 0 then space = 4096 end
  return high, low, up, space
end
local function time_less(a, b)
  for i = 1, 12 do
    local x, y = byte(a, i), byte(b, i)
    if i == 1 then x = (x + 128) % 256 y = (y + 128) % 256 end
    if x ~= y then return x < y end
  end
  return false
end
-- The next time there is: one nanosecond later.
local function time_after(t)
  local bytes = { byte(t, 1, 12) }
  local nsec = ((bytes[9] * 256 + bytes[10]) * 256 + bytes[11]) * 256 + bytes[12] + 1
  if nsec >= 1000000000 then
    nsec = 0
    if sub(t, 1, 8) ~= '\127' .. string.rep('\255', 7) then
      for i = 8, 1, -1 do
        bytes[i] = (bytes[i] + 1) % 256
        if bytes[i] > 0 then break end
      end
    end
  end
  for i = 12, 9, -1 do
    bytes[i] = nsec % 256
    nsec = math.floor(nsec / 256)
  end
  return string.char(unpack(bytes))
end
local function bytes_less(a, b)
  for i = 1, #a do
    local x, y = byte(a, i), byte(b, i)
    if x ~= y then return x < y end
  end
  return false
end
local function tail(k, known)
  local t = tails[k]
  if not t then
    local was = chunks[k] and #chunks[k] or call('LLEN', k)
    t = { was = was, added = {}, all = not chunks[k] and was == tonumber(known) }
    tails[k] = t
    lists[#lists + 1] = k
  end
  return t
end
-- Whether a list has this already. A server that can't say which place it has there shows the list.
local function has(k, t, value)
  for i = 1, #t.added do if t.added[i] == value then return true end end
  local list = chunks[k]
  if not list then
    local at = redis.pcall('LPOS', k, value)
    if type(at) ~= 'table' then return at end
    list = call('LRANGE', k, 0, -1)
  end
  for i = 1, #list do if list[i] == value then return true end end
  return false
end
local function has_statistics(space, dir)
  local will = stated[space .. ' ' .. dir]
  if will ~= nil then return will end
  return call('HEXISTS', space, dir) == 1
end
-- Whether a quota is there to be moved: one that is missing is made, without limits, where it may be.
local function has_quota(limits, field, create)
  local k = limits .. ' ' .. field
  if stated[k] == nil then stated[k] = call('HEXISTS', limits, field) == 1 end
  if not stated[k] and create then
    put('HSET', limits, field, string.rep('\255', 16))
    stated[k] = true
  end
  return stated[k]
end
-- The rules and the tier behind the parent: access and default rule are there when one of them is, the tier when
-- it is not 0, a pad byte always.
local function with_rules(v, access, default)
  local rules, tier = NONE, '\0'
  if #v >= 79 then rules = sub(v, 72, 79) tier = part(v, 80, 80) else tier = part(v, 72, 72) end
  if access ~= '' then rules = access .. sub(rules, 5, 8) end
  if default ~= '' then rules = sub(rules, 1, 4) .. default end
  if rules == NONE then rules = '' end
  if tier == '\0' then tier = '' end
  return sub(v, 1, 71) .. rules .. tier .. '\0'
end
local function replace(v, from, new) return sub(v, 1, from - 1) .. new .. sub(v, from + #new) end

-- The attributes of a node change, and with a file's length what follows from it.
local function change()
  local k, used, parents = key(), key(), key()
  local stat = { key(), key(), key() }
  local d = {}
  for i = 1, 15 do d[i] = word() end
  local quotas = {}
  for i = 1, num() do quotas[i] = { key(), key(), word(), word() == '1' } end
  local old = attr_of(k)
  if not old then return end
  local v = old
  if #v < 71 then v = sub(v, 1, 63) .. NONE .. '\0' end
  if d[1] ~= '' then
    local x, y = byte(d[1], 1, 2)
    v = replace(v, 2, string.char(kind_of(v) * 16 + x % 16, y))
  end
  if d[2] ~= '' then v = replace(v, 4, d[2]) end
  if d[3] ~= '' then v = replace(v, 8, d[3]) end
  if d[4] ~= '' then v = replace(v, 1, d[4]) end
  if d[5] ~= '' then v = replace(v, 64, d[5]) end
  if d[6] ~= '' then v = replace(v, 52, d[6]) end
  if d[13] ~= '' and bytes_less(sub(v, 52, 59), d[13]) then v = replace(v, 52, d[13]) end
  if d[7] ~= '' then v = replace(v, 12, d[7]) end
  if d[8] ~= '' then v = replace(v, 24, d[8]) end
  local moved = sub(v, 24, 35)
  if d[11] ~= '' and d[11] ~= moved then
    if time_less(moved, d[11]) then v = replace(v, 24, d[11])
    elseif kind_of(v) == 1 then v = replace(v, 24, time_after(moved)) end
  end
  if d[9] ~= '' then v = replace(v, 36, d[9]) end
  if d[12] ~= '' and time_less(sub(v, 36, 47), d[12]) then v = replace(v, 36, d[12]) end
  local links = tonumber(d[10])
  if links ~= 0 then
    local a, b, c, e = byte(v, 48, 51)
    local n = ((a * 256 + b) * 256 + c) * 256 + e + links
    if n < 0 or n > 4294967295 then broken = k return end
    local low = n % 65536
    local high = (n - low) / 65536
    v = replace(v, 48, string.char(math.floor(high / 256), high % 256, math.floor(low / 256), low % 256))
  end
  if d[14] ~= '' or d[15] ~= '' then v = with_rules(v, d[14], d[15]) end
  attrs[k] = v
  put('SET', k, v)
  if not shown[k] then shown[#shown + 1] = k shown[k] = true end
  if kind_of(v) ~= 1 or sub(v, 52, 59) == sub(old, 52, 59) then return end
  local oh, ol, osh, osl = shows(old)
  local nh, nl, nsh, nsl = shows(v)
  local sh, sl = nsh - osh, nsl - osl
  add(sh, sl, 'INCRBY', used)
  for _, q in ipairs(quotas) do
    if (sh ~= 0 or sl ~= 0) and has_quota(q[1], q[3], q[4]) then add(sh, sl, 'HINCRBY', q[2], q[3]) end
  end
  if part(old, 48, 51) == '\0\0\0\0' then return end
  local function account(dir, n)
    if has_statistics(stat[2], dir) then
      add((nh - oh) * n, (nl - ol) * n, 'HINCRBY', stat[1], dir)
      add(sh * n, sl * n, 'HINCRBY', stat[2], dir)
    end
  end
  if part(old, 64, 71) ~= NONE then account(decimal(old, 64), 1) return end
  local held = call('HGETALL', parents)
  for i = 1, #held, 2 do
    local n = tonumber(held[i + 1])
    if n and n > 0 then account(held[i], n) end
  end
end

-- A list is set as a whole, whatever was appended to it before.
local function set_list(k, list)
  chunks[k] = list
  local t = tails[k]
  if t then t.was, t.added, t.all = #list, {}, false end
end
local function store()
  local p = place()
  local v = values()
  local kind = p.kind
  if kind == 's' then put('SET', p.key, v[1]) attrs[p.key] = v[1]
  elseif kind == 'h' then put('HSET', p.key, p.field, v[1])
  elseif kind == 'z' then put('ZADD', p.key, v[1], p.field)
  elseif kind == 'm' then put('SADD', p.key, p.field)
  elseif kind == 'q' then
    stated[p.key .. ' ' .. p.field] = true
    stated[p.key2 .. ' ' .. p.field] = true
    put('HSET', p.key, p.field, v[1]) put('HSET', p.key2, p.field, v[2]) put('HSET', p.key3, p.field, v[3])
  else
    put('DEL', p.key)
    local cmd = kind == 'l' and 'RPUSH' or 'HSET'
    push(cmd, p.key, v)
    set_list(p.key, v)
  end
end
local function remove()
  local p = place()
  local kind = p.kind
  if kind == 's' or kind == 'l' or kind == 'a' then put('DEL', p.key) attrs[p.key] = false set_list(p.key, {})
  elseif kind == 'h' then put('HDEL', p.key, p.field)
  elseif kind == 'z' then put('ZREM', p.key, p.field)
  elseif kind == 'm' then put('SREM', p.key, p.field)
  else
    stated[p.key .. ' ' .. p.field] = false
    stated[p.key2 .. ' ' .. p.field] = false
    put('HDEL', p.key, p.field) put('HDEL', p.key2, p.field) put('HDEL', p.key3, p.field)
  end
end

-- A node joins or leaves: +1 or -1 of one inode, its space, and its bytes where they count.
local function join(sign, space, inodes, bytes, field)
  local v = attr_of(key())
  if not v then return end
  local lh, ll, sh, sl = shows(v)
  local function by(k, high, low)
    if field then add(high, low, 'HINCRBY', k, field) else add(high, low, 'INCRBY', k) end
  end
  by(space, sh * sign, sl * sign)
  by(inodes, 0, sign)
  if bytes then by(bytes, lh * sign, ll * sign) end
end

-- Who reads a key is told when others change it: what was written, and what else is asked for, is read, so that this
-- goes on.
local read, seen = {}, {}
local function to_read(k)
  if not seen[k] then seen[k] = true read[#read + 1] = k end
end

while at < #ARGV do
  local what = word()
  if what == 'P' then store()
  elseif what == 'D' then remove()
  elseif what == 'T' then change()
  elseif what == 'B' then
    local k, known, create, once, list = key(), word(), word() == '1', word() == '1', values()
    local t = tail(k, known)
    if (create or t.was + #t.added > 0) and not (once and has(k, t, list[1])) then
      push('RPUSH', k, list)
      for i = 1, #list do t.added[#t.added + 1] = list[i] end
    else
      t.all = false
    end
  elseif what == 'I' then
    local p, n = place(), word()
    if p.kind == 's' then put('INCRBY', p.key, n) else put('HINCRBY', p.key, p.field, n) end
    numbers[#numbers + 1] = p
  elseif what == 'G' then
    local bytes, space, inodes = key(), key(), key()
    local dir, sign = word(), num()
    if has_statistics(space, dir) then join(sign, space, inodes, bytes, dir) else attr_of(key()) end
  elseif what == 'U' then
    local space, inodes = key(), key()
    join(num(), space, inodes)
  elseif what == 'C' then
    local limits, space, inodes = key(), key(), key()
    local field, sign, create = word(), num(), word() == '1'
    if has_quota(limits, field, create) then join(sign, space, inodes, nil, field) else attr_of(key()) end
  elseif what == 'Q' then
    local limits, space, inodes = key(), key(), key()
    local field, create, bytes, count = word(), word() == '1', word(), word()
    if has_quota(limits, field, create) then
      put('HINCRBY', space, field, bytes)
      put('HINCRBY', inodes, field, count)
    end
  elseif what == 'K' then put(word(), key(), word())
  elseif what == 'X' then put('DEL', key())
  elseif what == 'R' then to_read(key())
  else return { 2, 'unknown word ' .. tostring(what) } end
  if broken then return { 2, broken } end
end
for i = 1, #todo do
  call(unpack(todo[i]))
  local k = todo[i][2]
  if string.find(k, '^{?%d*}?[idc]%d') then to_read(k) end
end
for i = 1, #read, 1000 do call('EXISTS', unpack(read, i, math.min(i + 999, #read))) end
for i = 1, #shown do shown[i] = attrs[shown[i]] end
for i = 1, #lists do
  local k = lists[i]
  local t = tails[k]
  lists[i] = t.all and t.was + #t.added or call('LRANGE', k, 0, -1)
end
for i = 1, #numbers do numbers[i] = look(numbers[i]) end
return { 1, shown, lists, numbers }
