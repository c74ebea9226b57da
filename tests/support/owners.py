"""Shops and users for tests, and their consent."""

from tests.support.ledger import RUNTIME
from tollway.consent.grants import GrantRequest, put_grant
from tollway.consent.owners import Owner, credential_of, put_owner
from tollway.contract.operation import Operation, OwnerKind
from tollway.store.database import Database, Transaction


def shop(owner_id: str) -> Owner:
    return Owner(OwnerKind.SHOP, owner_id, f"shop {owner_id}", None, f"login-{owner_id}", 0)


async def authorize(
    database: Database, account_id: str, operation: Operation, owner: Owner
) -> None:
    """Makes an owner known, if need be, and lets an account do what an operation asks of them."""
    need = operation.consent
    assert need is not None

    async def work(transaction: Transaction) -> None:
        if await credential_of(transaction, owner.kind, owner.id) is None:
            await put_owner(transaction, owner, "")
        grant_request = GrantRequest(account_id, need.whose, owner.id, need.scope)
        await put_grant(transaction, RUNTIME, grant_request, lifetime_s=None, granted_by="operator")

    await database.write(work)
