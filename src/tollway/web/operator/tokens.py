"""An account's tokens; and its clients, which obtain tokens at /oauth/token."""

from starlette.responses import Response

from tollway.ledger.accounts import Account
from tollway.ledger.clients import Client, add_client, list_clients, revoke_client
from tollway.web.area import Context
from tollway.web.blocks import Block, Cell, Empty, Field, Form, Secret, Table
from tollway.web.lists import BEGIN, list_part
from tollway.web.operator.account_tabs import (
    CLIENTS,
    ONE,
    TOKENS,
    find_wanted,
    tab_page,
)
from tollway.web.page_errors import PageError
from tollway.web.token_parts import TokenPages, chosen_kind, kind_field
from tollway.web.wording import titles

TOKEN_PAGES = TokenPages(find_wanted, tab_page, TOKENS, f"{ONE}/token", f"{ONE}/token/revoke")


async def show_clients(context: Context, *first: Block) -> Response:
    say, account = context.say, await find_wanted(context)
    found = await list_clients(context.database, account.id)
    part = list_part(found[::-1], context.query(BEGIN), CLIENTS, {"id": account.id})
    table = Table(
        [*titles(say, "Label", "Client", "Kind", "State", "Added"), ""],
        [_client_row(context, account, each) for each in part.rows],
        Empty(say("There is no client yet."), command=f"tollway client add {account.id}"),
        older=part.next,
        newest=part.first,
    )
    blocks: list[Block] = [table]
    if account.closed_at_s is None:
        blocks.append(
            Form(
                f"{CLIENTS}/add",
                say("Add client"),
                [Field("label", say("Label"), length_max=100), kind_field(context)],
                hidden={"account": account.id},
                title=say("Add a client"),
                note=say("A client obtains short-lived tokens at /oauth/token by its secret."),
                is_line=True,
            )
        )
    return tab_page(context, account, CLIENTS, blocks, *first)


def _client_row(context: Context, account: Account, client: Client) -> list[Cell]:
    say, is_active = context.say, client.revoked_at_s is None and account.closed_at_s is None
    state = say("active")
    if not is_active:
        state = say("closed") if client.revoked_at_s is None else say("revoked")
    revoke = context.question(f"{CLIENTS}/revoke", account=account.id, client=client.id)
    return [
        Cell(client.label or "–"),
        Cell(client.id, "mono"),
        Cell(say("sandbox") if client.kind == "test" else say("live")),
        Cell(state, tone="good" if is_active else "bad"),
        context.time(client.added_at_s),
        Cell(say("Revoke"), href=revoke, of=client.label or client.id) if is_active else Cell(""),
    ]


async def add_client_act(context: Context) -> Response:
    say, account = context.say, await find_wanted(context)
    added = await add_client(
        context.database,
        context.runtime,
        account.id,
        kind=chosen_kind(context),
        label=context.form.get("label", "")[:100],
    )
    title = say("The secret of {name}", name=added.client_id)
    shown = Secret(title, added.client_secret, say("Copy it now: it is not shown again."))
    return await show_clients(context, shown)


async def revoke_client_act(context: Context) -> Response:
    say, account = context.say, await find_wanted(context)
    clients = {each.id: each for each in await list_clients(context.database, account.id)}
    client = clients.get(context.form.get("client", ""))
    if client is None:
        raise PageError(404, "There is no such client", "It may be revoked already.")
    context.confirm(
        say(
            "Revoke the client {name}? It gets no more tokens, and those it has are refused.",
            name=client.label or client.id,
        ),
        say("Revoke"),
    )
    await revoke_client(context.database, context.runtime, client.id)
    return context.go(CLIENTS, id=account.id)
