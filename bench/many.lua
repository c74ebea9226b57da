-- Another account with every call, as if a thousand of them called at their limit. A few products on
-- the newest day, whose answers are cached; with TOLLWAY_TEST_COLD another product or day each time.
local tokens = {}
for line in io.lines(os.getenv("TOLLWAY_TEST_TOKENS")) do
  tokens[#tokens + 1] = { ["Authorization"] = "Bearer " .. line }
end
local cold = os.getenv("TOLLWAY_TEST_COLD") == "1"
local year, month, day = os.getenv("TOLLWAY_TEST_LAST_DAY"):match("(%d+)-(%d+)-(%d+)")
local newest = os.time({ year = year, month = month, day = day, hour = 12 })
-- Each round begins with other days, so that it finds no cached answers of the one before.
local count = 2640 * os.getenv("TOLLWAY_TEST_ROUND")
request = function()
  count = count + 1
  local product = 620145000100 + 37 * (count % (cold and 24 or 8))
  local back = cold and math.floor(count / 24) % 330 or 0
  return wrk.format("GET", string.format(
    "/papi/tool/accounts/goods-analysis?product_id=%.0f&query_date=%s",
    product, os.date("%Y-%m-%d", newest - back * 86400)), tokens[count % #tokens + 1])
end
