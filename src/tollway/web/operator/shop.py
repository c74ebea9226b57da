"""One shop or user: its owner's login, the consents it gave, and giving one in its name."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace

from starlette.responses import Response

from tollway.consent.erasures import ask_erasure, find_erasure
from tollway.consent.grants import GrantRequest, give_grant, grants_of_owner
from tollway.consent.owners import Owner, add_owner, credential_of, find_owner, sign_out_everywhere
from tollway.contract.operation import OwnerKind
from tollway.ledger.usage import DAY_S
from tollway.operations.orders.storage import last_change_of
from tollway.web.account_parts import CONSENTED
from tollway.web.area import Context, address
from tollway.web.blocks import Block, Cell, Facts, Field, Form, Link, Notice, Secret
from tollway.web.erasure_page import TYPED, WHAT, erasure_state
from tollway.web.lists import BEGIN, list_part
from tollway.web.operator.shops import KINDS, PATH, SHOP, consents_table
from tollway.web.operator.tables import known_account
from tollway.web.page_errors import PageError
from tollway.web.wording import counted, sentence

_DAYS_MAX = 36_500


async def add_act(context: Context) -> Response:
    form = context.form
    if form.get("kind") not in set(OwnerKind):
        raise PageError(400, "There is no such kind", "Choose one of the list.")
    wanted = Owner(
        form["kind"],
        form.get("id", "").strip(),
        form.get("name", "").strip(),
        form.get("shop_code", "").strip() or None,
        form.get("login", ""),
        0,
    )
    # A password that is not known to anyone, until the owner has chosen one behind the link.
    async with context.web.aside():
        added = await add_owner(
            context.database, context.runtime, wanted, secrets.token_urlsafe(32)
        )
    # What is sent from the new page comes back to it.
    view = context.visit.view.from_page(address(SHOP, kind=added.kind, shop=added.id))
    context = replace(context, visit=replace(context.visit, view=view))
    return await _shop_page(context, added, await _password_link(context, added))


async def _wanted(context: Context) -> Owner:
    return await find_owner(
        context.database, context.form.get("kind", ""), context.form.get("shop", "")
    )


async def show_shop(context: Context) -> Response:
    return await _shop_page(context, await _wanted(context))


async def _shop_page(context: Context, shop: Owner, *first: Block) -> Response:
    say, named = context.say, {"kind": shop.kind, "shop": shop.id}
    facts = [
        (say("Kind"), Cell(say(KINDS[OwnerKind(shop.kind)]))),
        (say("Id"), Cell(shop.id, "mono")),
        (say("Login of its owner"), Cell(shop.login, "mono")),
        (say("Shop code"), Cell(shop.shop_code or "–", "mono")),
        (say("Added"), context.time(shop.added_at_s)),
    ]
    links = [
        Link(say("Link for a new password"), context.question(f"{SHOP}/password", **named)),
        Link(say("Sign out everywhere"), context.question(f"{SHOP}/sign-out", **named)),
    ]
    is_erasing = False
    if shop.kind == OwnerKind.SHOP:
        erasure = await find_erasure(context.database, shop.id)
        is_erasing = erasure is not None and erasure.finished_at_s is None
        if not is_erasing:
            erase = context.question(f"{SHOP}/erase", **named)
            links.append(Link(say("Erase receivers"), erase))
        if erasure is not None:
            facts.append((say("Receivers"), Cell(erasure_state(erasure, context.web.zone, say))))
    grants = await grants_of_owner(context.database, shop.kind, shop.id)
    part = list_part(grants, context.query(BEGIN), SHOP, named)
    blocks: list[Block] = [
        *first,
        Facts(facts, say("Details"), links=links),
        consents_table(context, part, say("No account may use its data."), title=say("Consents")),
    ]
    if scopes := _scopes(shop.kind):
        titled = [(scope, say(title)) for scope, title in scopes.items()]
        blocks.append(_consent_form(context, titled, named))
    return context.page(
        shop.name,
        blocks,
        crumbs=[Link(say("Shops"), PATH)],
        actions=[Link(say("Requests"), address("/operator/requests", shop=shop.id))],
        live_s=5 if is_erasing else 0,
    )


def _consent_form(
    context: Context, scopes: Sequence[tuple[str, str]], named: Mapping[str, str]
) -> Form:
    say = context.say
    return Form(
        f"{SHOP}/consent",
        say("Give consent"),
        [
            Field("account", say("Account"), is_required=True, length_max=100),
            Field("scope", say("What"), "select", choices=scopes),
            Field(
                "days",
                say("Days"),
                "number",
                placeholder=str(context.services.settings.consent_days),
            ),
        ],
        hidden=named,
        title=say("Give a consent in the owner's name"),
        note=say("For example one that was signed on paper. The owner sees it."),
        is_line=True,
        is_folded=True,
    )


def _scopes(kind: str) -> dict[str, str]:
    """What a shop or user can allow, and the title of the operation that it is for."""
    return {scope: title for (whose, scope), (_, title) in CONSENTED.items() if whose == kind}


async def consent_act(context: Context) -> Response:
    say, shop, scope = context.say, await _wanted(context), context.form.get("scope", "")
    days = context.optional_number("days", say("Days")) or context.services.settings.consent_days
    scopes = _scopes(shop.kind)
    if scope not in scopes or not 1 <= days <= _DAYS_MAX:
        wrong = PageError(400, "This consent cannot be given", "Choose what is allowed, and days.")
        raise wrong.at("days" if scope in scopes else "scope")
    account = await known_account(context, context.form.get("account", "").strip())
    context.confirm(
        counted(
            say,
            days,
            sentence("{account} may use the data of {shop} for {count} day: {what}."),
            sentence("{account} may use the data of {shop} for {count} days: {what}."),
            account=account.name,
            shop=shop.name,
            what=say(scopes[scope]),
        ),
        say("Give consent"),
    )
    await give_grant(
        context.database,
        context.runtime,
        GrantRequest(account.id, shop.kind, shop.id, scope),
        lifetime_s=days * DAY_S,
        granted_by="operator",
    )
    return context.go(SHOP, kind=shop.kind, shop=shop.id)


async def _password_link(context: Context, shop: Owner) -> Secret:
    say, found = context.say, await credential_of(context.database, shop.kind, shop.id)
    assert found is not None
    made = await context.services.password_links.make(context.database, context.runtime, found)
    return Secret(
        say("Send this link to {name}", name=shop.name),
        made.url,
        say(
            "It lets the owner choose a new password, once. It is not shown again, and the ones "
            "before it have ended."
        ),
    )


async def password_act(context: Context) -> Response:
    say, shop = context.say, await _wanted(context)
    question = say(
        "Make a link by which the owner of {name} chooses a new password?", name=shop.name
    )
    context.confirm(question, say("Make a link"), is_harmless=True)
    return await _shop_page(context, shop, await _password_link(context, shop))


async def sign_out_act(context: Context) -> Response:
    say, shop = context.say, await _wanted(context)
    context.confirm(
        say("Sign the owner of {name} out in all browsers?", name=shop.name), say("Sign out")
    )
    await sign_out_everywhere(context.database, context.runtime, shop.login)
    done = Notice(say("The owner is signed out everywhere."), "good")
    return await _shop_page(context, shop, done)


async def erase_act(context: Context) -> Response:
    """Asks for the shop's id, typed, before its receivers are erased."""
    say, shop, named = context.say, await _wanted(context), context.form
    if shop.kind != OwnerKind.SHOP:
        raise PageError(404, "There is no such page", "Only a shop has receivers.")
    is_sent = context.request.method == "POST"
    if is_sent and named.get("typed", "").strip() == shop.id:
        await ask_erasure(context.database, context.runtime, shop.id, last_change_of)
        return context.go(SHOP, kind=shop.kind, shop=shop.id)
    form = Form(
        f"{SHOP}/erase",
        say("Erase receivers"),
        [Field("typed", say(TYPED, id=shop.id), is_required=True, length_max=64)],
        hidden={"kind": shop.kind, "shop": shop.id},
        note=say(" ").join((say(WHAT), say("It cannot be undone."))),
        problem=say("This is not the id of the shop.") if is_sent else "",
        tone="warn",
    )
    crumbs = [
        Link(say("Shops"), PATH),
        Link(shop.name, address(SHOP, kind=shop.kind, shop=shop.id)),
    ]
    title = say("Erase the receivers of {name}", name=shop.name)
    return context.page(title, [form], status=400 if is_sent else 200, crumbs=crumbs)
