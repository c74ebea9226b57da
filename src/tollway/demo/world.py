"""The demo world: accounts in every state a caller can meet, and data behind them.

Its tokens are random like any others. They are written to a file beside the database that only its
owner can read, because the database keeps nothing but their hashes and the demo must be able to
show them again.
"""

import os
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec

from tollway.demo.carriers import WP_CODE, WP_CODE_OUT_OF_NUMBERS, fill_carriers
from tollway.demo.claims import SIDS, midnight_s
from tollway.demo.figures import product_ids, record_count
from tollway.demo.filling import fill_claims, fill_figures, fill_materials, fill_orders
from tollway.demo.orders import RECEIVED_DAYS
from tollway.demo.owners import (
    ADZONE_ID,
    SHOP,
    SHOP_CODE,
    SHOP_UNAUTHORIZED,
    SITE_ID,
    USER,
    USER_UNAUTHORIZED,
    add_demo_owners,
)
from tollway.intake.sources import add_source
from tollway.ledger.accounts import open_account
from tollway.ledger.entries import top_up
from tollway.ledger.identity import World
from tollway.ledger.permissions import Permission, grant
from tollway.ledger.tokens import issue_token, revoke_token
from tollway.operations.catalogue import OPERATIONS
from tollway.store.database import Database, StoreError
from tollway.store.sealing import Sealer

PRODUCTS = 24
DAYS = 365
CLAIM_DAYS = 50
CLAIMS_PER_DAY = 1000
MATERIALS = 24
NUMBERS = 2000
ORDERS = 200_000
PUSH_SOURCE = "demo"
RECORDS = record_count(PRODUCTS, DAYS) + CLAIM_DAYS * CLAIMS_PER_DAY + ORDERS


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
    sid: str
    coupon_start_time: str
    coupon_end_time: str
    platform_user_id: int
    platform_user_id_unauthorized: int
    site_id: int
    adzone_id: int
    owner_id: str
    owner_id_unauthorized: str
    owner_login: str
    owner_password: str
    shop_code: str
    wp_code: str
    wp_code_out_of_numbers: str
    push_source: str
    push_secret: str


def demo_file(database_path: str) -> Path:
    return Path(f"{database_path}.demo.json")


def saved_world(database_path: str) -> DemoWorld | None:
    """The world that was made before, if there is one."""
    path = demo_file(database_path)
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=DemoWorld)
    except msgspec.ValidationError:
        raise StoreError(
            f"The demo world of {database_path} was made by another version: remove that file and "
            f"{path} to have a new one made."
        ) from None


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
    await _fill_claims(database, CLAIM_DAYS, today, zone, progress)
    await fill_materials(database, per_promotion=MATERIALS, today=today)
    await fill_carriers(database, numbers=NUMBERS)
    await fill_orders(
        database, sealer, per_year=ORDERS, days=DAYS, today=today, zone=zone, progress=progress
    )
    pusher = await add_source(database, sealer, PUSH_SOURCE, world.at_s())
    merchant, newcomer, spent = await _open_accounts(database, world)
    revoked = await issue_token(database, world, merchant, label="revoked")
    await revoke_token(database, world, revoked.token.id)

    async def token(account: str, kind: str = "live") -> str:
        return (await issue_token(database, world, account, kind=kind, label="demo")).text

    owner = await add_demo_owners(database, world, merchant)
    made = DemoWorld(
        base_url=base_url,
        token=await token(merchant),
        test_token=await token(merchant, "test"),
        token_without_permission=await token(newcomer),
        token_without_credits=await token(spent),
        revoked_token=revoked.text,
        product_id=product_ids(PRODUCTS)[0],
        query_date=today.isoformat(),
        sid=SIDS[0],
        coupon_start_time=str(midnight_s(today - timedelta(days=7), zone)),
        coupon_end_time=str(midnight_s(today, zone)),
        platform_user_id=int(USER.id),
        platform_user_id_unauthorized=int(USER_UNAUTHORIZED.id),
        site_id=SITE_ID,
        adzone_id=ADZONE_ID,
        owner_id=SHOP.id,
        owner_id_unauthorized=SHOP_UNAUTHORIZED.id,
        owner_login=owner.login,
        owner_password=owner.password,
        shop_code=SHOP_CODE,
        wp_code=WP_CODE,
        wp_code_out_of_numbers=WP_CODE_OUT_OF_NUMBERS,
        push_source=PUSH_SOURCE,
        push_secret=pusher.secret,
    )
    _save(demo_file(database_path), made)
    return made


async def _open_accounts(database: Database, world: World) -> tuple[str, str, str]:
    """One that can pay for everything, one that may call nothing, one that has nothing left."""
    merchant = (await open_account(database, world, "Demo merchant")).id
    newcomer = (await open_account(database, world, "Demo newcomer")).id
    spent = (await open_account(database, world, "Demo spent")).id
    for operation in OPERATIONS:
        for account in (merchant, spent):
            await grant(database, account, Permission(operation.name, None, None))
    for unit in {operation.balance_unit for operation in OPERATIONS}:
        await top_up(database, world, merchant, unit, 100_000, "demo")
    return merchant, newcomer, spent


async def continue_world(
    database: Database, sealer: Sealer, made: DemoWorld, today: date, zone: ZoneInfo
) -> None:
    """Adds the days that have passed since the world was made, so that today has figures too."""
    days = (today - date.fromisoformat(made.query_date)).days
    if days > 0:
        await fill_figures(database, products=PRODUCTS, days=min(DAYS, days), last=today)
        await fill_materials(database, per_promotion=MATERIALS, today=today)
        await _fill_claims(database, min(CLAIM_DAYS, days), today, zone)
        # From further back: what was sold lately has been shipped or received since.
        changed = min(DAYS, days + RECEIVED_DAYS)
        await fill_orders(database, sealer, per_year=ORDERS, days=changed, today=today, zone=zone)


async def _fill_claims(
    database: Database,
    days: int,
    today: date,
    zone: ZoneInfo,
    progress: Callable[[int], None] = lambda _: None,
) -> None:
    """Only days that are over: nobody has claimed a coupon tonight already."""
    yesterday = today - timedelta(days=1)
    await fill_claims(
        database, per_day=CLAIMS_PER_DAY, days=days, last=yesterday, zone=zone, progress=progress
    )


def _save(path: Path, made: DemoWorld) -> None:
    content = msgspec.json.format(msgspec.json.encode(made))
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
