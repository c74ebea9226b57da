"""An account's clients, which obtain tokens at /oauth/token: added, listed, revoked."""

from starlette.responses import Response

from tollway.ledger.accounts import Account
from tollway.ledger.clients import Client, add_client, list_clients, revoke_client
from tollway.web.area import Context, address
from tollway.web.blocks import Block, Cell, Column, Empty, Field, Form, Link, Secret, Table
from tollway.web.list_parts import BEGIN, list_part
from tollway.web.operator.accounts import ONE, PATH, find_wanted
from tollway.web.page_errors import PageError
from tollway.web.wording import sentence

CLIENTS = f"{ONE}/clients"
_TITLES = ("Label", sentence("Client"), "Kind", "State", "Added")


async def show_clients(context: Context) -> Response:
    return await _clients_page(context, await find_wanted(context))


async def _clients_page(context: Context, account: Account, *first: Block) -> Response:
    say = context.say
    found = await list_clients(context.database, account.id)
    part = list_part(found[::-1], context.query(BEGIN), CLIENTS, {"id": account.id})
    table = Table(
        [*(Column(say(each)) for each in _TITLES), Column("")],
        [_row(context, account, each) for each in part.rows],
        Empty(say("There is no client yet."), command=f"tollway client add {account.id}"),
        older=part.next,
        newest=part.first,
    )
    blocks: list[Block] = [*first, table]
    if account.closed_at_s is None:
        kinds = [("live", say("live")), ("test", say("sandbox"))]
        blocks.append(
            Form(
                f"{CLIENTS}/add",
                say("Add client"),
                [
                    Field("label", say("Label"), length_max=100),
                    Field("kind", say("Kind"), "select", "live", kinds),
                ],
                hidden={"account": account.id},
                title=say("Add a client"),
                note=say("A client obtains short-lived tokens at /oauth/token by its secret."),
                is_line=True,
            )
        )
    crumbs = [Link(say("Accounts"), PATH), Link(account.name, address(ONE, id=account.id))]
    return context.page(say("Clients"), blocks, crumbs=crumbs)


def _row(context: Context, account: Account, client: Client) -> list[Cell]:
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
        Cell(say("Revoke"), href=revoke) if is_active else Cell(""),
    ]


async def add_act(context: Context) -> Response:
    say, account = context.say, await find_wanted(context)
    added = await add_client(
        context.database,
        context.runtime,
        account.id,
        kind="test" if context.form.get("kind") == "test" else "live",
        label=context.form.get("label", "")[:100],
    )
    title = say("The secret of {name}", name=added.client_id)
    shown = Secret(title, added.client_secret, say("Copy it now: it is not shown again."))
    return await _clients_page(context, account, shown)


async def revoke_act(context: Context) -> Response:
    say, account = context.say, await find_wanted(context)
    clients = {each.id: each for each in await list_clients(context.database, account.id)}
    client = clients.get(context.form.get("client", ""))
    if client is None:
        raise PageError(404, "There is no such client", "It may be revoked already.")
    asked = context.ask_once(
        say(
            "Revoke the client {name}? It gets no more tokens, and those it has are refused.",
            name=client.label or client.id,
        ),
        say("Revoke"),
    )
    if asked is not None:
        return asked
    await revoke_client(context.database, context.runtime, client.id)
    return context.go(CLIENTS, id=account.id)
