"""All pages of the area of an account's members, on one screen."""

from tollway.web.area import PageSpec
from tollway.web.caller import analysis, history, home, shops, tokens, try_it, webhooks
from tollway.web.pages import Frame, RailLink
from tollway.web.wording import sentence

FRAME = Frame(
    home.PATH,
    sentence("Your account"),
    (
        RailLink(home.PATH, "Overview", "overview"),
        RailLink(analysis.ANALYSIS, "Product analysis", "analysis"),
        RailLink(try_it.TRY, "Try an operation", "try"),
        RailLink(history.REQUESTS, "Requests", "requests"),
        RailLink(history.LEDGER, "Ledger", "ledger"),
        RailLink(tokens.TOKENS, "Tokens", "tokens"),
        RailLink(webhooks.WEBHOOKS, "Webhooks", "webhooks"),
        RailLink(shops.SHOPS, "Shops", "shops"),
        RailLink(tokens.MEMBERS, "Members", "members"),
        RailLink("/account/second-factor", "Second factor", "factor"),
        RailLink("/docs", "API reference", "reference"),
    ),
    search="/account/search",
    search_hint=sentence("Find a request by its id"),
    sign_out="/account/sign-out",
)

PAGES = (
    PageSpec(home.PATH, home.show_home),
    PageSpec(home.ALERT, act=home.alert_act),
    PageSpec("/account/search", history.search),
    PageSpec(analysis.ANALYSIS, analysis.show_analysis),
    PageSpec(f"{analysis.ANALYSIS}/pay", act=analysis.pay_act),
    PageSpec(try_it.TRY, try_it.show_try, try_it.change_act),
    PageSpec(f"{try_it.TRY}/send", act=try_it.send_act),
    PageSpec(history.REQUESTS, history.show_requests),
    PageSpec(f"{history.REQUESTS}.csv", history.requests_csv),
    PageSpec(history.ONE, history.show_request),
    PageSpec(history.LEDGER, history.show_ledger),
    PageSpec(f"{history.LEDGER}.csv", history.ledger_csv),
    PageSpec(history.STATEMENT, history.show_statement),
    PageSpec(shops.SHOPS, shops.show_shops),
    PageSpec(f"{shops.SHOPS}/ask", act=shops.ask_act),
    *tokens.TOKEN_PAGES.specs(),
    PageSpec(f"{tokens.TOKENS}/rotate", tokens.show_rotation, tokens.rotate_act),
    PageSpec(webhooks.WEBHOOKS, webhooks.show_webhooks),
    PageSpec(f"{webhooks.WEBHOOKS}/add", act=webhooks.add_act),
    PageSpec(f"{webhooks.WEBHOOKS}/test", act=webhooks.test_act),
    PageSpec(webhooks.WEBHOOK, webhooks.show_webhook),
    PageSpec(f"{webhooks.WEBHOOK}/rotate", webhooks.rotate_act, webhooks.rotate_act),
    PageSpec(f"{webhooks.WEBHOOK}/remove", webhooks.remove_act, webhooks.remove_act),
    PageSpec(f"{webhooks.WEBHOOK}/again", webhooks.again_act, webhooks.again_act),
    *tokens.MEMBER_PAGES.specs(),
)
