"""Shops and users, with a search; the consents that they gave, and revoking one."""

from starlette.responses import Response

from tollway.consent.grants import NamedGrant, find_grant, grants_page, revoke_grant
from tollway.consent.owners import owners_page
from tollway.contract.operation import OwnerKind
from tollway.web.account_parts import grants_after, position_of_grant, scope_title
from tollway.web.area import PAGE_ROWS, Context, address
from tollway.web.blocks import Cell, Empty, Field, Filters, Form, Link, Table
from tollway.web.lists import ListPart, page_part
from tollway.web.wording import sentence, sentences

PATH = "/operator/shops"
SHOP = "/operator/shop"
CONSENTS = "/operator/consents"
KINDS = {OwnerKind.SHOP: sentence("shop"), OwnerKind.USER: sentence("user")}


async def show_shops(context: Context) -> Response:
    say, text = context.say, context.query("q")
    after = context.query("after").partition(":")
    found = await owners_page(context.database, text, (after[0], after[2]), PAGE_ROWS + 1)
    part = page_part(context, found, PATH, lambda last: f"{last.kind}:{last.id}", q=text)
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
    none = say("No shop or user matches.") if text else say("No shop or user is known yet.")
    table = Table(
        [*map(say, sentences("Shop or user", "Kind", "Id", "Login", "Added"))],
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


async def show_consents(context: Context) -> Response:
    say, text = context.say, context.query("q")
    found = await grants_page(context.database, text, grants_after(context), PAGE_ROWS + 1)
    part = page_part(context, found, CONSENTS, position_of_grant, q=text)
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
    titles = sentences("Shop or user", "Account", "What", "State", "Granted", "Expires")
    return Table(
        [*map(say, titles), ""],
        [_row(context, each) for each in part.rows],
        Empty(none),
        title=title,
        filters=filters,
        older=part.next,
        newest=part.first,
    )


def _row(context: Context, each: NamedGrant) -> list[Cell]:
    say, grant, is_valid = context.say, each.grant, each.grant.holds(context.now_s)
    shop = address(SHOP, kind=grant.owner_kind, shop=grant.owner_id)
    revoke = context.question(f"{CONSENTS}/revoke", consent=grant.id)
    return [
        Cell(context.owner(grant.owner_kind, grant.owner_id), "mono", shop),
        Cell(each.account_name, href=address("/operator/account", id=grant.account_id)),
        Cell(scope_title(context, grant), title=grant.scope),
        Cell(say("allowed") if is_valid else say("ended"), tone="good" if is_valid else "bad"),
        context.time(grant.granted_at_s),
        context.time(grant.expires_at_s),
        Cell(say("Revoke"), href=revoke) if is_valid else Cell(""),
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
