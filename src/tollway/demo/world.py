"""The demo world: accounts in every state a caller can meet, and data behind them.

Its tokens are random like any others. They are written to a file beside the database that only its
owner can read, because the database keeps nothing but their hashes and the demo must be able to
show them again.
"""

import os
from collections.abc import Callable
from datetime import date
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec

from tollway.demo.figures import product_ids, record_count
from tollway.demo.filling import fill_figures, fill_orders
from tollway.demo.orders import RECEIVED_DAYS, SHOPS
from tollway.intake.sources import add_source
from tollway.ledger.accounts import open_account
from tollway.ledger.entries import top_up
from tollway.ledger.identity import World
from tollway.ledger.permissions import Permission, grant
from tollway.ledger.tokens import issue_token, revoke_token
from tollway.operations.catalogue import OPERATIONS
from tollway.store.database import Database
from tollway.store.sealing import Sealer

PRODUCTS = 24
DAYS = 365
ORDERS = 200_000
PUSH_SOURCE = "demo"
RECORDS = record_count(PRODUCTS, DAYS) + ORDERS


class DemoWorld(msgspec.Struct, frozen=True):
    """Everything needed to produce each answer of the specification by hand."""

    base_url: str
    token: str
    test_token: str
    token_without_permission: str
    token_without_credits: str
    revoked_token: str
    product_id: str
    query_date: str
    owner_id: str
    push_source: str
    push_secret: str


def demo_file(database_path: str) -> Path:
    return Path(f"{database_path}.demo.json")


def saved_world(database_path: str) -> DemoWorld | None:
    """The world that was made before, if there is one."""
    path = demo_file(database_path)
    if not path.exists():
        return None
    return msgspec.json.decode(path.read_bytes(), type=DemoWorld)


async def make_world(
    database: Database,
    sealer: Sealer,
    world: World,
    *,
    database_path: str,
    base_url: str,
    today: date,
    zone: ZoneInfo,
    progress: Callable[[int], None] = lambda _: None,
) -> DemoWorld:
    """Fills a database and writes down the tokens."""
    await fill_figures(database, products=PRODUCTS, days=DAYS, last=today, progress=progress)
    await fill_orders(
        database, sealer, per_year=ORDERS, days=DAYS, today=today, zone=zone, progress=progress
    )
    pusher = await add_source(database, sealer, PUSH_SOURCE, world.at_s())
    merchant = (await open_account(database, world, "Demo merchant")).id
    newcomer = (await open_account(database, world, "Demo newcomer")).id
    spent = (await open_account(database, world, "Demo spent")).id
    for operation in OPERATIONS:
        for account in (merchant, spent):
            await grant(database, account, Permission(operation.name, None, None))
    for unit in {operation.balance_unit for operation in OPERATIONS}:
        await top_up(database, world, merchant, unit, 100_000, "demo")
    revoked = await issue_token(database, world, merchant, label="revoked")
    await revoke_token(database, world, revoked.token.id)

    async def token(account: str, kind: str = "live") -> str:
        return (await issue_token(database, world, account, kind=kind, label="demo")).text

    made = DemoWorld(
        base_url=base_url,
        token=await token(merchant),
        test_token=await token(merchant, "test"),
        token_without_permission=await token(newcomer),
        token_without_credits=await token(spent),
        revoked_token=revoked.text,
        product_id=product_ids(PRODUCTS)[0],
        query_date=today.isoformat(),
        owner_id=SHOPS[0][0],
        push_source=PUSH_SOURCE,
        push_secret=pusher.secret,
    )
    _save(demo_file(database_path), made)
    return made


async def continue_world(
    database: Database, sealer: Sealer, made: DemoWorld, today: date, zone: ZoneInfo
) -> None:
    """Adds the days that have passed since the world was made, so that today has figures too."""
    days = (today - date.fromisoformat(made.query_date)).days
    if days > 0:
        await fill_figures(database, products=PRODUCTS, days=min(DAYS, days), last=today)
        # From further back: what was sold lately has been shipped or received since.
        changed = min(DAYS, days + RECEIVED_DAYS)
        await fill_orders(database, sealer, per_year=ORDERS, days=changed, today=today, zone=zone)


def _save(path: Path, made: DemoWorld) -> None:
    content = msgspec.json.format(msgspec.json.encode(made))
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
