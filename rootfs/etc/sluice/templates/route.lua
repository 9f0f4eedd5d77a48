-- Which rule of a list takes a request: see package vhost for what a list is. One call decides,
-- however many lists are read, and only requests whose path has conditions pay for it.
--
-- What an id stands for never changes, so lists are kept as they were read, each thread its own.

local lists = Map.new("maps/conditions.map", Map._str)

local MAX_KEPT = 20000 -- lists

local kept, count = {}, 0

local function unescape(text)
  return (text:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

-- automaton reads what package pattern wrote: class is the class of each byte.
local function automaton(text)
  local starts, classes, width, next_states, ends = text:match("^([^:]*):([^:]*):([^:]*):([^:]*):([^:]*)$")
  local of, first = {}, {}
  for class in classes:gmatch("%d+") do of[#of + 1] = tonumber(class) end
  for start in starts:gmatch("%d+") do first[#first + 1] = tonumber(start) end
  local a = {class = {}, width = tonumber(width), next = {}, ends = {}}
  local at = 1
  for byte = 0, 255 do
    if first[at + 1] and byte >= first[at + 1] then at = at + 1 end
    a.class[byte] = of[at]
  end
  for state in next_states:gmatch("%d+") do a.next[#a.next + 1] = tonumber(state) end
  for state in ends:gmatch("%d+") do a.ends[tonumber(state)] = true end
  return a
end

local function matches(a, text)
  local class, width, next_states, state = a.class, a.width, a.next, 1
  for i = 1, #text do
    state = next_states[(state - 1) * width + class[text:byte(i)]]
    if state == 0 then return false end
  end
  return a.ends[state] == true
end

local function condition(text)
  local kind, how, rest = text:sub(1, 1), text:sub(2, 2), text:sub(3)
  local c = {kind = kind}
  if kind == "h" or kind == "q" then
    local name, value = rest:match("^([^=~]*)[=~](.*)$")
    c.name, rest = unescape(name), value
  end
  if how == "~" then c.automaton = automaton(rest) else c.value = unescape(rest) end
  return c
end

local function parse(text)
  local list = {}
  for element in text:gmatch("[^;]+") do
    local first = element:sub(1, 1)
    if first == "@" then
      list[#list + 1] = {sub = element:sub(2)}
    elseif first == "+" then
      list[#list + 1] = {jump = element:sub(2)}
    else
      local conditions, action = element:match("^([^>]*)>(.*)$")
      local rule = {action = action}
      for text in conditions:gmatch("[^&]+") do rule[#rule + 1] = condition(text) end
      list[#list + 1] = rule
    end
  end
  return list
end

local function list_of(id)
  local list = kept[id]
  if list then return list end
  local text = lists:lookup(id)
  if not text then return {} end
  if count >= MAX_KEPT then kept, count = {}, 0 end
  list = parse(text)
  kept[id], count = list, count + 1
  return list
end

-- Facts of a request, each found out when it is asked for.

local function query_of(request)
  if request.query then return request.query end
  local query = {}
  for pair in (request.txn.f:query() or ""):gmatch("[^&]+") do
    local name, value = pair:match("^([^=]*)=?(.*)$")
    name = unescape((name:gsub("%+", " ")))
    if query[name] == nil then query[name] = unescape((value:gsub("%+", " "))) end -- the first one counts
  end
  request.query = query
  return query
end

local function fact(request, c)
  if c.kind == "h" then return request.txn.f:req_fhdr(c.name, 1) end
  if c.kind == "q" then return query_of(request)[c.name] end
  if c.kind == "m" then return request.txn.f:method() end
  return request.txn:get_var("txn.path")
end

local function holds(request, rule)
  for i = 1, #rule do
    local c = rule[i]
    local value = fact(request, c)
    if value == nil then return false end
    if c.automaton then
      if not matches(c.automaton, value) then return false end
    elseif c.value ~= value then
      return false
    end
  end
  return true
end

local function decide(request, id)
  while id do
    local list, jump = list_of(id), nil
    for i = 1, #list do
      local element = list[i]
      if element.sub then
        local action = decide(request, element.sub)
        if action then return action end
      elseif element.jump then
        jump = element.jump
      elseif holds(request, element) then
        return element.action
      end
    end
    id = jump
  end
  return nil
end

core.register_action("sluice_route", {"http-req"}, function(txn)
  local action = decide({txn = txn}, txn:get_var("txn.backend"):sub(2))
  if action then
    txn:set_var("txn.backend", action)
  else
    txn:unset_var("txn.backend")
  end
end)
