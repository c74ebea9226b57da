"""The owners of the demo world: a shop and a user that authorized the demo's account, and one of
each that did not.

The sandbox has the same owners, but there they cannot sign in, because they are not real.
"""

from msgspec.structs import replace

from tollway.consent.grant_cache import SANDBOX_ACCOUNT
from tollway.consent.grants import GrantRequest, give_grant, put_grant
from tollway.consent.owners import Owner, add_owner, put_owner
from tollway.contract.operation import OwnerKind
from tollway.ledger.runtime import Runtime
from tollway.operations.catalogue import OPERATIONS
from tollway.operations.demo_data import SHOPS
from tollway.store.database import Database, Transaction, transactional

SHOP_CODE = "QH7K2M"
USER = Owner(OwnerKind.USER, "116385041", "林小满", None, "lin.xiaoman", 0)
USER_UNAUTHORIZED = Owner(OwnerKind.USER, "116385042", "周北山", None, "zhou.beishan", 0)
SHOP = Owner(OwnerKind.SHOP, SHOPS[0].owner_id, SHOPS[0].name, SHOP_CODE, "qinghe", 0)
SHOP_UNAUTHORIZED = Owner(OwnerKind.SHOP, SHOPS[1].owner_id, SHOPS[1].name, "BS4W9T", "beishan", 0)
SITE_ID = 45928134
ADZONE_ID = 110358026

_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
# Not a hash, so no password matches it.
_NO_SIGN_IN = ""
_DAY_S = 86_400


def new_password(runtime: Runtime) -> str:
    return "".join(runtime.pick(_LETTERS) for _ in range(16))


async def add_demo_owners(database: Database, runtime: Runtime, account_id: str) -> str:
    """Adds the owners; returns the password of the one who can sign in, `SHOP_UNAUTHORIZED`."""
    password = new_password(runtime)

    async def work(transaction: Transaction) -> None:
        for owner in (USER, USER_UNAUTHORIZED, SHOP):
            added = replace(owner, added_at_s=runtime.at_s())
            await put_owner(transaction, added, _NO_SIGN_IN)

    await database.write(work)
    await add_owner(database, runtime, SHOP_UNAUTHORIZED, password)
    for grant_request in _grant_requests(account_id):
        await give_grant(
            database, runtime, grant_request, lifetime_s=365 * _DAY_S, granted_by="operator"
        )
    return password


@transactional
async def add_sandbox_owners(transaction: Transaction) -> None:
    for owner in (USER, USER_UNAUTHORIZED, SHOP, SHOP_UNAUTHORIZED):
        await put_owner(transaction, owner, _NO_SIGN_IN)
    for grant_request in _grant_requests(SANDBOX_ACCOUNT):
        await put_grant(
            transaction, Runtime(), grant_request, lifetime_s=None, granted_by="operator"
        )


def _grant_requests(account_id: str) -> list[GrantRequest]:
    authorized = {OwnerKind.USER: USER, OwnerKind.SHOP: SHOP}
    needs = [operation.consent for operation in OPERATIONS if operation.consent is not None]
    return [
        GrantRequest(account_id, need.whose, authorized[need.whose].id, need.scope)
        for need in needs
    ]
