"""The demo world: accounts in every state a caller can meet, and the data they read.

Its tokens are random like any others. They are saved to a file next to the database that only the
file's owner can read: the database has only their hashes, and the demo must show them again.
"""

import gc
from collections.abc import Callable
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec

from tollway.demo.owners import (
    ADZONE_ID,
    SHOP,
    SHOP_CODE,
    SHOP_UNAUTHORIZED,
    SITE_ID,
    USER,
    USER_UNAUTHORIZED,
    add_demo_owners,
    new_password,
)
from tollway.demo.world_file import DemoWorld, demo_file, save_world
from tollway.identity.people import Person, Role, set_person_password
from tollway.identity.sign_in_links import invite
from tollway.intake.sources import ALL, SourceScope, add_source
from tollway.ledger.accounts import open_account
from tollway.ledger.entries import top_up
from tollway.ledger.permissions import Permission, add_permission
from tollway.ledger.runtime import Runtime
from tollway.ledger.tokens import issue_token, revoke_token
from tollway.ledger.usage import day_start_s
from tollway.operations.catalogue import OPERATIONS, SUBJECTS
from tollway.operations.coupon_claims.demo import SIDS
from tollway.operations.demo_data import DemoTarget
from tollway.operations.product_analysis.demo import product_ids
from tollway.operations.waybills.demo import WP_CODE, WP_CODE_OUT_OF_NUMBERS
from tollway.store.database import Database
from tollway.store.sealing import Sealer

PUSH_SOURCE = "demo"


async def make_world(
    database: Database,
    sealer: Sealer,
    runtime: Runtime,
    *,
    database_path: str,
    base_url: str,
    site: str,
    zone: ZoneInfo,
    progress: Callable[[int], None] = lambda _: None,
) -> DemoWorld:
    """Fills a database and saves the tokens."""
    now_s = runtime.at_s()
    # Half a million short-lived records without cycles: the garbage collector would find nothing.
    gc.disable()
    await fill_all(DemoTarget(database, sealer, now_s, zone, site, progress=progress))
    gc.enable()
    pusher = await add_source(database, sealer, PUSH_SOURCE, SourceScope((ALL,), (ALL,)), runtime)
    merchant, newcomer, spent = await _open_accounts(database, runtime)
    revoked = await issue_token(database, runtime, merchant, label="revoked")
    await revoke_token(database, runtime, revoked.token.id)

    async def token(account: str, kind: str = "live") -> str:
        return (await issue_token(database, runtime, account, kind=kind, label="demo")).text

    owner_password = await add_demo_owners(database, runtime, merchant)
    member, member_password = await _add_member(database, runtime, merchant)
    made = DemoWorld(
        base_url=base_url,
        site=site,
        token=await token(merchant),
        test_token=await token(merchant, "test"),
        token_without_permission=await token(newcomer),
        token_without_credits=await token(spent),
        revoked_token=revoked.text,
        product_id=product_ids(1)[0],
        sid=SIDS[0],
        **_days(now_s, zone),
        platform_user_id=int(USER.id),
        platform_user_id_unauthorized=int(USER_UNAUTHORIZED.id),
        site_id=SITE_ID,
        adzone_id=ADZONE_ID,
        owner_id=SHOP.id,
        owner_id_unauthorized=SHOP_UNAUTHORIZED.id,
        owner_login=SHOP_UNAUTHORIZED.login,
        owner_password=owner_password,
        member_login=member.login,
        member_password=member_password,
        shop_code=SHOP_CODE,
        wp_code=WP_CODE,
        wp_code_out_of_numbers=WP_CODE_OUT_OF_NUMBERS,
        push_source=PUSH_SOURCE,
        push_secret=pusher.secret,
    )
    save_world(demo_file(database_path), made)
    return made


async def _add_member(database: Database, runtime: Runtime, account_id: str) -> tuple[Person, str]:
    """Adds the person who signs in for the account that can pay; returns their password too."""
    password = new_password(runtime)
    made = await invite(
        database,
        runtime,
        role=Role.OWNER,
        name="Demo merchant's owner",
        login="merchant",
        account_wanted=account_id,
    )
    await set_person_password(database, made.person, password, runtime.now_s())
    return made.person, password


async def _open_accounts(database: Database, runtime: Runtime) -> tuple[str, str, str]:
    """Opens an account that can pay for everything, one that may call nothing, and one that has
    nothing left."""
    merchant = (await open_account(database, runtime, "Demo merchant")).id
    newcomer = (await open_account(database, runtime, "Demo newcomer")).id
    spent = (await open_account(database, runtime, "Demo spent")).id
    for operation in OPERATIONS:
        for account in (merchant, spent):
            await add_permission(database, account, Permission(operation.name, None, None))
    for unit in {operation.balance_unit for operation in OPERATIONS}:
        await top_up(database, runtime, merchant, unit, 100_000, "demo")
    return merchant, newcomer, spent


async def continue_world(
    database: Database,
    sealer: Sealer,
    made: DemoWorld,
    *,
    database_path: str,
    base_url: str,
    site: str,
    now_s: float,
    zone: ZoneInfo,
) -> DemoWorld:
    """Adds what has happened since the world was made, up to this minute."""
    days = _days(now_s, zone)
    passed = date.fromisoformat(days["query_date"]) - date.fromisoformat(made.query_date)
    if passed.days >= 0:
        target = DemoTarget(
            database, sealer, now_s, zone, site, made_days_ago=passed.days, made_site=made.site
        )
        await fill_all(target)
    continued = msgspec.structs.replace(made, base_url=base_url, site=site, **days)
    save_world(demo_file(database_path), continued)
    return continued


def _days(now_s: float, zone: ZoneInfo) -> dict[str, str]:
    """The days to query: yesterday is the newest complete day."""
    today = datetime.fromtimestamp(now_s, zone).date()
    return {
        "query_date": (today - timedelta(days=1)).isoformat(),
        "coupon_start_time": str(day_start_s(today - timedelta(days=7), zone)),
        "coupon_end_time": str(day_start_s(today, zone)),
    }


async def fill_all(target: DemoTarget) -> None:
    """Fills in every subject's part of a demo world."""
    filling = [each.demo.fill(target) for each in SUBJECTS if each.demo is not None]
    try:
        for part in filling:
            await part
    finally:
        for part in filling:
            part.close()


def world_records() -> int:
    """How many records a whole demo world will report as progress."""
    return sum(each.demo.world_records() for each in SUBJECTS if each.demo is not None)
