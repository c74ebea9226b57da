"""Tokens page by page: those in force first, then the expired, then the revoked, and none twice."""

from tests.support.ledger import new_caller
from tests.support.stores import Store
from tollway.ledger.runtime import Runtime
from tollway.ledger.token_list import position_of, tokens_page
from tollway.ledger.tokens import (
    LISTED_MAX,
    find_own_token,
    issue_token,
    list_own_tokens,
    put_token,
    revoke_token,
)
from tollway.store.database import Database, Transaction

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


def test_a_list_of_very_many_tokens_ends_and_has_those_in_force(store: Store) -> None:
    caller = new_caller(store)

    async def work(database: Database) -> None:
        async def obtain(transaction: Transaction) -> list[str]:
            """As a client does, for days."""
            made = [
                await put_token(
                    transaction,
                    RUNTIME,
                    caller.account_id,
                    kind="live",
                    label="",
                    lifetime_s=1,
                    client_id="cli_1",
                )
                for _ in range(LISTED_MAX + 5)
            ]
            return [each.token.id for each in made]

        obtained = await database.write(obtain)
        own = await issue_token(database, RUNTIME, caller.account_id)
        listed = await list_own_tokens(database, caller.account_id, NOW_S)
        assert len(listed) == LISTED_MAX
        assert {caller.token_id, own.token.id} < {each.id for each in listed}
        assert listed == sorted(listed, key=lambda each: (each.issued_at_s, each.id))
        # One that is left out is found all the same, and only by its own account.
        (left_out, *_) = {*obtained} - {each.id for each in listed}
        assert await find_own_token(database, caller.account_id, left_out) is not None
        assert await find_own_token(database, "acc_another", left_out) is None

    store.do(work)
