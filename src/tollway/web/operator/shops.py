"""Shops and consents: a search, page by page, and revoking one."""

from starlette.responses import Response

from tollway.consent.grants import NamedGrant, find_grant, grants_page, revoke_grant
from tollway.web.area import PAGE_ROWS, Context, address
from tollway.web.blocks import Cell, Column, Empty, Field, Filters, Table
from tollway.web.wording import sentences

PATH = "/operator/shops"


async def show_shops(context: Context) -> Response:
    say, text = context.say, context.query("q")
    after = context.query("after").partition(":")
    last = (int(after[0]), after[2]) if after[0].isdigit() and len(after[0]) < 19 else None
    found = await grants_page(context.database, text, last, PAGE_ROWS + 1)
    rows = [_row(context, each) for each in found[:PAGE_ROWS]]
    older = ""
    if len(found) > PAGE_ROWS:
        grant = found[PAGE_ROWS - 1].grant
        older = address(PATH, q=text, after=f"{grant.granted_at_s}:{grant.id}")
    titles = sentences("Shop or user", "Account", "What", "State", "Granted", "Expires")
    nothing = say("No shop has given consent.")
    table = Table(
        [*(Column(say(each)) for each in titles), Column("")],
        rows,
        Empty(say("No shop or account matches.") if text else nothing, command="tollway shop add"),
        filters=Filters(PATH, [Field("q", say("Shop, user or account"), "search", text)]),
        older=older,
        newest=address(PATH, q=text) if last else "",
    )
    return context.page(say("Shops and consents"), [table])


def _row(context: Context, each: NamedGrant) -> list[Cell]:
    say, grant, is_valid = context.say, each.grant, each.grant.holds(context.now_s)
    revoke = address(f"{PATH}/revoke", consent=grant.id)
    return [
        Cell(f"{grant.owner_kind} {grant.owner_id}", "mono", address(PATH, q=grant.owner_id)),
        Cell(each.account_name, href=address("/operator/account", id=grant.account_id)),
        Cell(grant.scope),
        Cell(say("allowed") if is_valid else say("ended"), tone="good" if is_valid else ""),
        context.time(grant.granted_at_s),
        context.time(grant.expires_at_s),
        Cell(say("Revoke"), href=revoke) if is_valid else Cell(""),
    ]


async def revoke_act(context: Context) -> Response:
    say = context.say
    grant = await find_grant(context.database, context.form.get("consent", ""))
    question = say(
        "Revoke the consent of {owner} for {what}? The account's next call is refused.",
        owner=f"{grant.owner_kind} {grant.owner_id}",
        what=grant.scope,
    )
    asked = context.ask_once(question, say("Revoke"))
    if asked is not None:
        return asked
    await revoke_grant(context.database, context.runtime, grant.id)
    return context.go(PATH)
