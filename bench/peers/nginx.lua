-- Runs in nginx: reads the request, has Redis do the work in one script, writes the envelope.
local redis = require "nginx.redis"
local PORT, SCRIPT, PRICES = {{port}}, "{{script}}", { {{prices}} }
local OPERATIONS = { {{paths}} }
local REFUSED = {
  [100] = { 400, "Parameter error." },
  [103] = { 400, "Not found." },
  [202] = { 429, "Too many requests: retry later." },
  [204] = { 402, "Insufficient number of calls or credits." },
  [302] = { 403, "Not authorized." },
  [401] = { 401, "Credential invalid." },
  [404] = { 404, "No such address." },
}

local function send(status, code, msg, data)
  local body = string.format('{"code":%d,"msg":"%s","msec":%.0f,"time":%d,"data":%s}',
    code, msg, (ngx.now() - ngx.req.start_time()) * 1000, ngx.time(), data)
  ngx.status = status
  ngx.header["Content-Type"] = "application/json; charset=utf-8"
  ngx.header["Content-Length"] = #body
  ngx.header["X-Request-Id"] = ngx.var.request_id
  ngx.print(body)
end

local function arguments(operation)
  if operation == "product_analysis" then
    local asked = ngx.req.get_uri_args()
    return asked.product_id or "", asked.query_date or ""
  end
  ngx.req.read_body()
  if operation == "orders" then
    local asked = ngx.req.get_post_args()
    return asked.owner_id or "", asked.page or 0, asked.pageSize or 100
  elseif operation == "coupon_claims" then
    local asked = ngx.req.get_post_args()
    return (asked.sid or "") .. ":" .. (asked.type or ""), asked.startTime or 0, asked.endTime or 0,
      asked.page or 1, asked.limit or 20
  end
  return ngx.req.get_body_data() or "{}"
end

local MAKE = {
  product_analysis = function(found) return found[3] end,
  orders = function(found)
    local asked = ngx.req.get_post_args()
    local page, size = asked.page or 0, asked.pageSize or 100
    return table.concat({ '{"content":[', table.concat(found, ",", 3), '],"page":', page,
      ',"pageSize":', size, ',"page_size":', size, ',"totalElements":', found[2],
      ',"total_elements":', found[2], ',"withholding_money":', PRICES.orders, "}" })
  end,
  coupon_claims = function(found)
    return table.concat({ '{"total":', found[2], ',"dataList":[', table.concat(found, ",", 3),
      '],"withholding_money":', PRICES.coupon_claims, "}" })
  end,
  promotion_material = function(found)
    local list = table.concat(found, ",", 3):gsub("@slot@", found[2])
    return table.concat({ '{"withholding_money":', PRICES.promotion_material,
      ',"affiliate_sc_optimus_promotion_response":{"result_list":{"map_data":[', list, "]}}}" })
  end,
  waybills = function(found)
    local form = found[4]:gsub("@order@", found[2]):gsub("@number@", found[3])
    return (form:gsub("@object@", "wb_" .. ngx.var.request_id:sub(1, 23)))
  end,
}

return function()
  local operation = OPERATIONS[ngx.req.get_method() .. ngx.var.uri]
  if not operation then return send(404, 404, REFUSED[404][2], "{}") end
  local token = (ngx.var.http_authorization or ""):match("^Bearer (%S+)$") or ""
  local connection = redis:new()
  connection:set_timeout(10000)
  if not connection:connect("127.0.0.1", PORT) then return send(504, 101, "Timeout.", "{}") end
  local found, wrong = connection:evalsha(SCRIPT, 0, token, operation, PRICES[operation],
    ngx.time(), arguments(operation))
  connection:set_keepalive(60000, 1000)
  if not found then
    ngx.log(ngx.ERR, wrong)
    return send(500, 200, "Unknown error.", "{}")
  end
  local refused = REFUSED[found[1]]
  if refused then return send(refused[1], found[1], refused[2], "{}") end
  send(200, 0, "Success", MAKE[operation](found))
end
