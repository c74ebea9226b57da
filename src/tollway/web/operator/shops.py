"""Shops and users: the list, and one with its owner's login and its consents; giving a consent in
its name, and revoking one."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace

from starlette.responses import Response

from tollway.consent.erasures import ask_erasure, find_erasure
from tollway.consent.grants import (
    GrantRequest,
    NamedGrant,
    find_grant,
    give_grant,
    grants_of_owner,
    grants_page,
    revoke_grant,
)
from tollway.consent.owners import (
    Owner,
    add_owner,
    credential_of,
    find_owner,
    owners_page,
    sign_out_everywhere,
)
from tollway.contract.language import Phrase
from tollway.contract.operation import OwnerKind
from tollway.ledger.usage import DAY_S
from tollway.operations.orders.storage import last_change_of
from tollway.web.account_parts import (
    CONSENTED,
    grant_cells,
    grants_after,
    position_of_grant,
    scope_title,
)
from tollway.web.area import PAGE_ROWS, Context, address
from tollway.web.blocks import (
    Block,
    Cell,
    Empty,
    Facts,
    Field,
    Filters,
    Form,
    Link,
    Notice,
    Secret,
    Table,
)
from tollway.web.erasure_page import TYPED, WHAT, erasure_state
from tollway.web.lists import BEGIN, ListPart, list_part, page_part
from tollway.web.operator.account_tabs import known_account
from tollway.web.page_errors import PageError
from tollway.web.wording import counted, sentence, titles

PATH = "/operator/shops"
SHOP = "/operator/shop"
CONSENTS = "/operator/consents"
_DAYS_MAX = 36_500
KINDS = {OwnerKind.SHOP: sentence("shop"), OwnerKind.USER: sentence("user")}


async def show_shops(context: Context) -> Response:
    say, text = context.say, context.query("q")
    kind, _, owner_id = context.query("after").partition(":")
    after = (kind, owner_id) if kind in KINDS else None
    found = await owners_page(context.database, text, after or ("", ""), PAGE_ROWS + 1)
    part = page_part(found, after, PATH, lambda last: f"{last.kind}:{last.id}", q=text)
    rows = [
        [
            Cell(each.name, href=address(SHOP, kind=each.kind, shop=each.id)),
            Cell(say(KINDS[OwnerKind(each.kind)])),
            Cell(each.id, "mono"),
            Cell(each.login, "mono"),
            context.time(each.added_at_s),
        ]
        for each in part.rows
    ]
    none = (
        say("No shop or user matches.")
        if text
        else say("No shop or user is known yet: add one above.")
    )
    table = Table(
        titles(say, "Shop or user", "Kind", "Id", "Login", "Added"),
        rows,
        Empty(none, command="" if text else "tollway shop add ID NAME --login LOGIN"),
        filters=Filters(PATH, [Field("q", say("Name, id or login"), "search", text)]),
        older=part.next,
        newest=part.first,
        is_by_name=True,
    )
    actions = [Link(say("All consents"), CONSENTS)]
    return context.page(say("Shops"), [_add_form(context), table], actions=actions)


def _add_form(context: Context) -> Form:
    say = context.say
    kinds = [(each.value, say(text)) for each, text in KINDS.items()]
    return Form(
        f"{SHOP}/add",
        say("Add shop"),
        [
            Field("kind", say("Kind"), "select", choices=kinds),
            Field("id", say("Id"), is_required=True, length_max=64),
            Field("name", say("Name"), is_required=True, length_max=100),
            Field("login", say("Login of its owner"), is_required=True, length_max=100),
            Field("shop_code", say("Shop code"), length_max=64),
        ],
        title=say("Add a shop or user"),
        note=say(
            "The id is what callers send as owner_id or platform_user_id. You get a link by which "
            "the owner chooses a password."
        ),
        is_line=True,
        is_folded=True,
    )


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
    # A random password that no one knows, until the owner chooses one with the link.
    async with context.web.without_slot():
        added = await add_owner(
            context.database, context.runtime, wanted, secrets.token_urlsafe(32)
        )
    # Forms on the new page must come back to it.
    named = {"kind": added.kind, "shop": added.id}
    view = context.visit.view.from_page(address(SHOP, **named))
    context = replace(context, visit=replace(context.visit, view=view), form=named)
    return await show_shop(context, await _password_link(context, added))


async def _wanted(context: Context) -> Owner:
    return await find_owner(
        context.database, context.form.get("kind", ""), context.form.get("shop", "")
    )


async def show_shop(context: Context, *first: Block) -> Response:
    say, shop = context.say, await _wanted(context)
    named = {"kind": shop.kind, "shop": shop.id}
    facts = [
        (say("Kind"), Cell(say(KINDS[OwnerKind(shop.kind)]))),
        (say("Id"), Cell(shop.id, "mono id")),
        (say("Login of its owner"), Cell(shop.login, "mono id")),
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


def _scopes(kind: str) -> dict[str, str | Phrase]:
    """The scopes that a shop or user can allow, each with the title of its operation."""
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
    return await show_shop(context, await _password_link(context, shop))


async def sign_out_act(context: Context) -> Response:
    say, shop = context.say, await _wanted(context)
    context.confirm(
        say("Sign the owner of {name} out in all browsers?", name=shop.name), say("Sign out")
    )
    await sign_out_everywhere(context.database, context.runtime, shop.login)
    done = Notice(say("The owner is signed out everywhere."), "good")
    return await show_shop(context, done)


async def erase_act(context: Context) -> Response:
    """Asks the operator to type the shop's id before its receivers are erased."""
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


async def show_consents(context: Context) -> Response:
    say, text = context.say, context.query("q")
    after = grants_after(context)
    found = await grants_page(context.database, text, after, PAGE_ROWS + 1)
    part = page_part(found, after, CONSENTS, position_of_grant, q=text)
    none = say("No shop or account matches.") if text else say("No shop has given consent.")
    table = consents_table(
        context,
        part,
        none,
        filters=Filters(CONSENTS, [Field("q", say("Id of a shop, or account"), "search", text)]),
    )
    return context.page(say("Consents"), [table], crumbs=[Link(say("Shops"), PATH)])


def consents_table(
    context: Context,
    part: ListPart[NamedGrant],
    none: str,
    *,
    filters: Filters | None = None,
    title: str = "",
) -> Table:
    say = context.say
    return Table(
        [*titles(say, "Shop or user", "Account", "What", "State", "Granted", "Expires"), ""],
        [_row(context, each) for each in part.rows],
        Empty(none),
        title=title,
        filters=filters,
        older=part.next,
        newest=part.first,
    )


def _row(context: Context, each: NamedGrant) -> list[Cell]:
    say, grant = context.say, each.grant
    shop = address(SHOP, kind=grant.owner_kind, shop=grant.owner_id)
    revoke = context.question(f"{CONSENTS}/revoke", consent=grant.id)
    owner, scope = context.owner(grant.owner_kind, grant.owner_id), scope_title(context, grant)
    return [
        Cell(owner, "mono", shop),
        Cell(each.account_name, href=address("/operator/account", id=grant.account_id)),
        *grant_cells(context, grant),
        Cell(say("Revoke"), href=revoke, of=f"{owner}, {each.account_name}, {scope}")
        if grant.holds(context.now_s)
        else Cell(""),
    ]


async def revoke_act(context: Context) -> Response:
    say = context.say
    grant = await find_grant(context.database, context.form.get("consent", ""))
    question = say(
        "Revoke the consent of {owner} for {what}? The account's next call is refused.",
        owner=context.owner(grant.owner_kind, grant.owner_id),
        what=scope_title(context, grant),
    )
    context.confirm(question, say("Revoke"))
    await revoke_grant(context.database, context.runtime, grant.id)
    return context.go(SHOP, kind=grant.owner_kind, shop=grant.owner_id)
