"""All pages of the operator's area, on one screen."""

from tollway.web.area import PageSpec
from tollway.web.operator import account_list, accounts, lists, overview, prices, requests
from tollway.web.pages import Frame, RailLink
from tollway.web.wording import sentence

FRAME = Frame(
    overview.PATH,
    sentence("Operator console"),
    (
        RailLink(overview.PATH, "Overview", "overview"),
        RailLink(accounts.PATH, "Accounts", "accounts"),
        RailLink(requests.PATH, "Requests", "requests"),
        RailLink(lists.SHOPS, "Shops and consents", "shops"),
        RailLink(lists.CARRIERS, "Carriers", "carriers"),
        RailLink(lists.DATA, "Data", "data"),
        RailLink(prices.PATH, "Prices", "prices"),
        RailLink(lists.NODES, "Nodes", "nodes"),
        RailLink(lists.TRAIL, "Trail", "trail"),
        RailLink(lists.SETTINGS, "Settings", "settings"),
    ),
    search="/operator/search",
    search_hint=sentence("Search requests and accounts"),
    sign_out="/operator/sign-out",
)

PAGES = (
    PageSpec(overview.PATH, overview.show_overview),
    PageSpec("/operator/search", requests.search),
    PageSpec(requests.PATH, requests.show_requests),
    PageSpec(requests.ONE, requests.show_request),
    PageSpec(accounts.PATH, account_list.show_accounts),
    PageSpec(f"{accounts.PATH}/open", act=account_list.open_act),
    PageSpec(accounts.ONE, accounts.show_account),
    PageSpec(f"{accounts.ONE}/ledger", accounts.show_ledger),
    PageSpec(f"{accounts.ONE}/top-up", act=accounts.top_up_act),
    PageSpec(f"{accounts.ONE}/permission", act=accounts.permission_act),
    PageSpec(f"{accounts.ONE}/token", act=accounts.token_act),
    PageSpec(f"{accounts.ONE}/token/revoke", accounts.revoke_act, accounts.revoke_act),
    PageSpec(f"{accounts.ONE}/invite", act=accounts.invite_act),
    PageSpec(f"{accounts.ONE}/close", act=accounts.close_act),
    PageSpec(lists.SHOPS, lists.show_shops),
    PageSpec(f"{lists.SHOPS}/revoke", lists.revoke_consent_act, lists.revoke_consent_act),
    PageSpec(lists.CARRIERS, lists.show_carriers),
    PageSpec(lists.WAYBILL, lists.show_waybill),
    PageSpec(f"{lists.WAYBILL}/label", lists.waybill_label),
    PageSpec(lists.DATA, lists.show_data),
    PageSpec(prices.PATH, prices.show_prices),
    PageSpec(f"{prices.PATH}/price", act=prices.price_act),
    PageSpec(f"{prices.PATH}/state", act=prices.state_act),
    PageSpec(lists.NODES, lists.show_nodes),
    PageSpec(lists.TRAIL, lists.show_trail),
    PageSpec(lists.SETTINGS, lists.show_settings),
)
