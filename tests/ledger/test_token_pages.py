"""Tokens page by page: those in force first, then the expired, then the revoked, and none twice."""

from tests.support.ledger import new_caller
from tests.support.stores import Store
from tollway.ledger.runtime import Runtime
from tollway.ledger.token_pages import position_of, tokens_page
from tollway.ledger.tokens import issue_token, revoke_token
from tollway.store.database import Database

PER_RANK = 3
AT_S = 1_767_225_600
RUNTIME = Runtime(now_s=lambda: float(AT_S))
NOW_S = AT_S + 100.5


def test_every_token_is_on_one_page_in_the_order_of_its_rank(store: Store) -> None:
    account_id = new_caller(store).account_id

    async def work(database: Database) -> list[str]:
        async def issued(lifetime_s: int | None) -> str:
            made = await issue_token(database, RUNTIME, account_id, lifetime_s=lifetime_s)
            return made.token.id

        for _ in range(PER_RANK):
            # What ends later is in force, what was revoked is so whenever it ends.
            for lifetime_s in (None, 1, 1000, 100):
                await issued(lifetime_s)
            await revoke_token(database, RUNTIME, await issued(1))
            await revoke_token(database, RUNTIME, await issued(None))
        states, after = [], ""
        while page := await tokens_page(database, account_id, 1, NOW_S, after):
            (token,) = page
            after = position_of(token, NOW_S)
            is_over = token.expires_at_s is not None and token.expires_at_s <= NOW_S
            states.append("revoked" if token.revoked_at_s else "expired" if is_over else "in force")
        return states

    # One token more than these is that of the caller.
    wanted = ["in force"] * (2 * PER_RANK + 1)
    wanted += ["expired"] * 2 * PER_RANK + ["revoked"] * 2 * PER_RANK
    assert store.do(work) == wanted
