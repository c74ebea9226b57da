-- Runs in Redis, as one script for one call: token, permission, limit, consent, balance, the data,
-- and the charge. Returns {code} if refused, {0, total, records...} otherwise.
local token, operation, price, second = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local account = redis.call("GET", "token:" .. token)
if not account then return { 401 } end
local limit = redis.call("HGET", "permission:" .. account, operation)
if not limit then return { 204 } end
local window = "window:" .. account .. ":" .. operation .. ":" .. second
if tonumber(redis.call("GET", window) or 0) >= tonumber(limit) then return { 202 } end
local unit = operation == "product_analysis" and "calls" or "credits"
local balance = "balance:" .. account .. ":" .. unit
if tonumber(redis.call("GET", balance) or 0) < price then return { 204 } end

local function may_use(owner)
  return redis.call("SISMEMBER", "grant:" .. account .. ":" .. operation, owner) == 1
end

local found
if operation == "product_analysis" then
  local ready = redis.call("GET", "analysis:" .. ARGV[5] .. ":" .. ARGV[6])
  if not ready then return { 100 } end
  found = { 0, 1, ready }
elseif operation == "orders" then
  local owner, page, size = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
  if not may_use(owner) then return { 302 } end
  local list = "orders:" .. owner
  local keys = redis.call("ZRANGE", list, page * size, page * size + size - 1)
  found = { 0, redis.call("ZCARD", list), unpack(#keys > 0 and redis.call("MGET", unpack(keys)) or {}) }
elseif operation == "coupon_claims" then
  -- The newest come first: their scores are negative times.
  local list, from, till = "claims:" .. ARGV[5], ARGV[6], ARGV[7]
  local page, size = tonumber(ARGV[8]), tonumber(ARGV[9])
  local total = redis.call("ZCOUNT", list, "(-" .. till, "-" .. from)
  local first = redis.call("ZCOUNT", list, "-inf", "-" .. till) + (page - 1) * size
  local size_left = math.min(size, total - (page - 1) * size)
  local keys = size_left > 0 and redis.call("ZRANGE", list, first, first + size_left - 1) or {}
  found = { 0, total, unpack(#keys > 0 and redis.call("MGET", unpack(keys)) or {}) }
elseif operation == "promotion_material" then
  local asked = cjson.decode(ARGV[5])
  if not may_use(string.format("%.0f", asked.platform_user_id)) then return { 302 } end
  local size = asked.page_size or 10
  local first = ((asked.page_num or 1) - 1) * size
  local list = "materials:" .. string.format("%.0f", asked.promotion_id)
  local slot = string.format("mm_%.0f_%.0f_%.0f", asked.platform_user_id, asked.site_id, asked.adzone_id)
  found = { 0, slot, unpack(redis.call("LRANGE", list, first, first + size - 1)) }
elseif operation == "waybills" then
  local asked = cjson.decode(ARGV[5])
  if not may_use(asked.owner_id) then return { 302 } end
  local key = table.concat({ "waybill", account, asked.owner_id, asked.order_sn, asked.wp_code }, ":")
  local number = redis.call("GET", key)
  if number then
    price = 0
  else
    number = redis.call("LPOP", "numbers:" .. asked.wp_code)
    if not number then return { 103 } end
    redis.call("SET", key, number)
  end
  found = { 0, asked.order_sn, number, redis.call("GET", "waybill_form") }
end
if redis.call("INCR", window) == 1 then redis.call("EXPIRE", window, 2) end
if price > 0 then redis.call("DECRBY", balance, price) end
return found
