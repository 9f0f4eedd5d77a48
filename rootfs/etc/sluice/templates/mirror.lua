-- Copies of requests to other backends, for the filter RequestMirror. A copy is sent by a task of
-- its own, through the frontend _mirror of this process, so its target is a backend like any other;
-- the client's request goes on at once, and nobody waits for the answer.
--
-- A copy is left out where it can't be whole (a body without a length, or a longer one than
-- MAX_BODY) and where too many are under way.

local socket = ... -- of the frontend _mirror

local values = Map.new("maps/values.map", Map._str)

local MAX_BODY = 8192       -- bytes
local MAX_OF_TARGET = 32    -- copies under way, in each thread
local MAX_OF_THREAD = 128
local TIMEOUT = 10000       -- milliseconds

local under_way, total = {}, 0

local function send(target, request)
  if total >= MAX_OF_THREAD or (under_way[target] or 0) >= MAX_OF_TARGET then return end
  total = total + 1
  under_way[target] = (under_way[target] or 0) + 1
  core.register_task(function()
    pcall(function() core.httpclient():get(request) end)
    total = total - 1
    under_way[target] = under_way[target] - 1
    if under_way[target] == 0 then under_way[target] = nil end
  end)
end

-- body is that of the request, empty where it has none, nil where it is not all there.
local function body(txn)
  local length = tonumber(txn.f:req_fhdr("content-length") or "")
  if not length then
    local method = txn.f:method()
    if txn.f:req_fhdr("transfer-encoding") or method == "POST" or method == "PUT" or method == "PATCH" then return nil end
    return ""
  end
  if length > MAX_BODY then return nil end
  local text = length > 0 and txn.f:req_body() or ""
  if #text ~= length then return nil end
  return text
end

local function copy(txn, target)
  local text = body(txn)
  if not text then return nil end
  local headers = txn.http:req_get_headers()
  headers["connection"], headers["upgrade"], headers["expect"], headers["content-length"] = nil, nil, nil, nil
  headers["x-sluice-mirror"] = {[0] = target}
  headers["x-sluice-method"] = {[0] = txn.f:method()}
  headers["x-sluice-host"] = {[0] = txn.f:req_fhdr("host") or ""}
  local request = {url = "http://mirror" .. txn.f:pathq(), headers = headers, dst = socket, timeout = TIMEOUT}
  if text ~= "" then request.body = text end
  return request
end

core.register_action("sluice_mirror", {"http-req"}, function(txn)
  local name = txn.f:be_name() .. "/mirror/"
  local i = 0
  while true do
    local value = values:lookup(name .. i)
    if not value then return end
    local target, numerator, denominator = value:match("^(%S+) (%d+) (%d+)$")
    if math.random(tonumber(denominator)) <= tonumber(numerator) then
      local request = copy(txn, target)
      if request then send(target, request) end
    end
    i = i + 1
  end
end)
