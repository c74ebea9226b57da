-- Another product and day each time, over a year: every answer is made from its rows.
local year, month, day = os.getenv("TOLLWAY_TEST_LAST_DAY"):match("(%d+)-(%d+)-(%d+)")
local newest = os.time({ year = year, month = month, day = day, hour = 12 })
local count = 0
request = function()
  count = count + 1
  local product = 620145000100 + 37 * (count % 24)
  local back = math.floor(count / 24) % 330
  return wrk.format("GET", string.format(
    "/papi/tool/accounts/goods-analysis?product_id=%.0f&query_date=%s",
    product, os.date("%Y-%m-%d", newest - back * 86400)))
end
