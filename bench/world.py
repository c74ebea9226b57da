"""The data that is measured on: made-up orders, figures, claims, material and waybill numbers, and
the accounts that call. The same on either engine, apart from the tokens."""

import asyncio
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from tests.support.owners import authorize
from tollway.carriers.pools import SHARED, add_numbers
from tollway.contract.operation import OwnerKind, Unit
from tollway.demo.owners import SHOP, USER
from tollway.ledger.accounts import open_account
from tollway.ledger.entries import top_up
from tollway.ledger.permissions import Permission, add_permission
from tollway.ledger.runtime import Runtime
from tollway.ledger.tokens import issue_token, revoke_token
from tollway.ledger.usage import day_start_s
from tollway.operations.catalogue import OPERATIONS
from tollway.operations.coupon_claims.demo import fill_claims
from tollway.operations.demo_data import PRODUCTS, DemoTarget
from tollway.operations.orders.demo import fill_orders
from tollway.operations.product_analysis.demo import fill_figures
from tollway.operations.promotion_material.demo import fill_materials
from tollway.operations.waybills.demo import WP_CODE, fill_carriers
from tollway.store.database import Database
from tollway.store.migrate import migrate
from tollway.store.open import open_database, open_sealer
from tollway.telemetry.metrics import Metrics

ZONE = ZoneInfo("Asia/Shanghai")
CLAIM_DAYS = 8
_RUNTIME = Runtime()
_MANY = 10**9
_FAST = 1_000_000


class Size(NamedTuple):
    """How much of everything. Three in five orders are of the shop that is read."""

    orders_a_year: int
    order_days: int
    products: int
    figure_days: int
    claims_a_day: int
    numbers: int


class Tokens(NamedTuple):
    """One token for each kind of answer."""

    paying: str
    limited: str
    spent: str
    revoked: str


class World(NamedTuple):
    """A filled database and its tokens. Today has no figures yet."""

    tokens: Tokens
    today: date
    size: Size

    @property
    def product_ids(self) -> list[str]:
        return [each.id for each in PRODUCTS[: self.size.products]]

    # Callers ask for windows of any second: these cut hours in two.
    @property
    def claims_from_s(self) -> int:
        return day_start_s(self.today - timedelta(days=7), ZONE) + 1777

    @property
    def claims_until_s(self) -> int:
        return day_start_s(self.today, ZONE) - 1333


def make_world(url: str, key_file: str, size: Size) -> World:
    today = datetime.now(UTC).astimezone(ZONE).date()
    return World(asyncio.run(_fill(url, key_file, size, today)), today, size)


async def _fill(url: str, key_file: str, size: Size, today: date) -> Tokens:
    database, now_s = open_database(url, Metrics()), day_start_s(today, ZONE)
    await migrate(database)
    yesterday = today - timedelta(days=1)
    await fill_figures(database, products=size.products, days=size.figure_days, last=yesterday)
    sealer = open_sealer(url, key_file)
    target = DemoTarget(database, sealer, now_s, ZONE, "http://127.0.0.1:8080")
    await fill_claims(target, size.claims_a_day, today - timedelta(days=CLAIM_DAYS))
    await fill_materials(target, 24)
    await fill_carriers(database, numbers=1)
    numbers = (f"YT{9_000_000_000_000 + number}" for number in range(size.numbers))
    await add_numbers(database, WP_CODE, SHARED, numbers, lambda _: None)
    await fill_orders(target, size.orders_a_year, today - timedelta(days=size.order_days))
    tokens = await _accounts(database)
    await database.close()
    return tokens


async def _accounts(database: Database) -> Tokens:
    paying = await _account(database, "paying", _FAST, _MANY)
    limited = await _account(database, "limited", None, _MANY)
    spent = await _account(database, "spent", _FAST, 0)
    revoked = await issue_token(database, _RUNTIME, paying)
    await revoke_token(database, _RUNTIME, revoked.token.id)
    live = [(await issue_token(database, _RUNTIME, each)).text for each in (paying, limited, spent)]
    return Tokens(*live, revoked.text)


async def _account(database: Database, name: str, rate: int | None, amount: int) -> str:
    account_id = (await open_account(database, _RUNTIME, name)).id
    for operation in OPERATIONS:
        await add_permission(database, account_id, Permission(operation.name, None, rate))
        if operation.consent is not None:
            owner = SHOP if operation.consent.whose is OwnerKind.SHOP else USER
            await authorize(database, account_id, operation, owner)
    for unit in {each.balance_unit for each in OPERATIONS} if amount else ():
        await top_up(database, _RUNTIME, account_id, unit, amount)
    return account_id


PRICES = {each.name: each.default_price if each.unit is Unit.CREDITS else 1 for each in OPERATIONS}
