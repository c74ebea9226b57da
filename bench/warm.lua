-- A few products on the newest day: their answers are cached.
local day = os.getenv("TOLLWAY_TEST_LAST_DAY")
local count = 0
request = function()
  count = count + 1
  local product = 620145000100 + 37 * (count % 8)
  return wrk.format("GET", string.format(
    "/papi/tool/accounts/goods-analysis?product_id=%.0f&query_date=%s", product, day))
end
