"""The shops and users that authorized an account, and the links that ask others."""

from starlette.responses import Response

from tollway.consent.grants import GrantRequest, NamedGrant, grants_of_account_page
from tollway.consent.owners import find_owner
from tollway.ledger import LedgerError
from tollway.web.account_parts import (
    CONSENTED,
    grant_cells,
    grants_after,
    owner_for_member,
    position_of_grant,
    state_notice,
)
from tollway.web.area import PAGE_ROWS, Context
from tollway.web.blocks import Block, Cell, Empty, Field, Filters, Form, Secret, Table
from tollway.web.caller.home import PATH, account_id, own_account
from tollway.web.lists import page_part
from tollway.web.page_errors import PageError
from tollway.web.wording import exact_time, titles

SHOPS = f"{PATH}/shops"
# What an account can ask an owner for, by the value that the form sends.
_NEEDS = {f"{kind}:{scope}": found for (kind, scope), found in CONSENTED.items()}


async def show_shops(context: Context, *first: Block) -> Response:
    say, own, text = context.say, account_id(context.person), context.query("q")
    after = grants_after(context)
    found = await grants_of_account_page(context.database, own, text, after, PAGE_ROWS + 1)
    part = page_part(found, after, SHOPS, position_of_grant, q=text)
    account = await own_account(context)
    may_ask = context.person.may_change and account.closed_at_s is None
    none = say("No shop has authorized this account yet.")
    if may_ask:
        none = say(
            "No shop has authorized this account yet. Make a link below and send it to a shop."
        )
    table = Table(
        titles(say, "Shop or user", "What", "State", "Granted", "Expires"),
        [_row(context, each) for each in part.rows],
        Empty(say("No shop or user matches.") if text else none),
        filters=Filters(SHOPS, [Field("q", say("Id of a shop or user"), "search", text)]),
        older=part.next,
        newest=part.first,
    )
    blocks: list[Block] = [*state_notice(context, account), *first, table]
    if may_ask:
        blocks.append(_ask_form(context))
    return context.page(say("Shops"), blocks)


def _row(context: Context, each: NamedGrant) -> list[Cell]:
    owner = owner_for_member(context, each.grant, each.owner_name)
    return [Cell(owner, "mono"), *grant_cells(context, each.grant)]


def _ask_form(context: Context) -> Form:
    say = context.say
    choices = [(name, say(title)) for name, (_, title) in _NEEDS.items()]
    return Form(
        f"{SHOPS}/ask",
        say("Make a link"),
        [
            Field("need", say("What for"), "select", choices=choices),
            Field("owner", say("Id of a shop or user"), is_required=True, length_max=64),
        ],
        title=say("Ask a shop or user"),
        note=say(
            "You get a link for its owner, who sees who asks and for what, and decides. A call "
            "without consent is answered 302 with the same link."
        ),
        is_line=True,
    )


async def ask_act(context: Context) -> Response:
    say, account = context.say, await own_account(context)
    if context.form.get("need") not in _NEEDS:
        raise PageError(400, "This kind of access does not exist", "Choose one of the list.")
    need, _ = _NEEDS[context.form["need"]]
    if account.closed_at_s is not None:
        raise PageError(409, "This account is closed", "No shop can authorize it any more.")
    owner_id = context.form.get("owner", "").strip()
    try:
        owner = await find_owner(context.database, need.whose.value, owner_id)
    except LedgerError:
        raise PageError(
            404,
            "No shop or user with this id is known here",
            "Check the id, or ask the operator to add it.",
        ).at("owner") from None
    wanted = GrantRequest(account.id, owner.kind, owner.id, need.scope)
    link = context.services.consent_links.make(wanted, context.now_s, is_sandbox=False)
    note = say(
        "It holds until {time}. Nothing is allowed before the owner has signed in and approved.",
        time=exact_time(link.expires_at_s, context.web.zone),
    )
    title = say("Send this link to the owner of {name}", name=context.owner(owner.kind, owner.id))
    return await show_shops(context, Secret(title, link.url, note))
