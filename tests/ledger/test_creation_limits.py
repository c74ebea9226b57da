"""What an account makes free of charge in a day: counted exactly, and refused beyond the limit."""

from collections.abc import Callable

import pytest
from sqlalchemy import bindparam, select

from tests.support.in_loop import InLoop
from tests.support.stores import Store
from tollway.contract.language import Phrase
from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.creation_limits import Counted, count_today, limit_reached
from tollway.store.database import Database, Row
from tollway.store.query import Query
from tollway.store.schema.ledger import account_day

HOUR_S = 3600
TODAY_S = 20_000 * 24 * HOUR_S
# Which of its things, and how many a day, an account is refused one more of.
LIMITS = {
    Counted.TOKENS: (200, "new tokens", "新建的令牌"),
    Counted.ROTATIONS: (200, "token rotations", "轮换的令牌"),
    Counted.WEBHOOKS: (50, "new webhooks", "新建的回调"),
    Counted.REFUSED_HOSTS: (50, "webhooks with a refused host", "主机被拒绝的回调"),
    Counted.SECRETS: (50, "new webhook secrets", "更换的回调密钥"),
    Counted.EVENTS: (200, "test events", "发送的测试事件"),
    Counted.ALERTS: (200, "alert changes", "更改的提醒"),
    Counted.INVITATIONS: (50, "invitations", "发出的邀请"),
    Counted.ROLES: (200, "role changes", "更改的角色"),
    Counted.AGENT_SESSIONS: (1000, "new agent sessions", "新建的智能体会话"),
}
COUNTS = Query(
    select(account_day.c.counted, account_day.c.day_start_s, account_day.c.number)
    .where(account_day.c.account_id == bindparam("of_account"))
    .order_by(account_day.c.counted)
)
PUT = Query(
    account_day.insert().values({each.name: bindparam(each.name) for each in account_day.c})
)


class Maker:
    """An account that makes things."""

    def __init__(self, database: Database, account_id: str) -> None:
        self._database = database
        self._account_id = account_id

    async def has_made(self, counted: Counted, number: int) -> None:
        values = {"account_id": self._account_id, "counted": counted.name.lower()}
        await self._database.write(
            lambda tx: tx.execute(PUT, **values, day_start_s=TODAY_S, number=number)
        )

    async def make(self, counted: Counted, day_start_s: int = TODAY_S) -> None:
        await self._database.write(
            lambda tx: count_today(tx, self._account_id, counted, day_start_s)
        )

    async def counts(self) -> list[Row]:
        """What was made, in which day, and how many of it."""
        rows = await self._database.fetch_all(COUNTS, of_account=self._account_id)
        return [tuple(row) for row in rows]


Makers = tuple[Maker, Maker]


@pytest.fixture
def makers(store: Store, new_name: Callable[[], str]) -> InLoop[Makers]:
    """Two accounts that have made nothing."""
    return InLoop(
        lambda test: store.do(
            lambda database: test((Maker(database, new_name()), Maker(database, new_name())))
        )
    )


def test_every_limit_is_that_of_a_kind_of_thing() -> None:
    assert list(LIMITS) == list(Counted)


@pytest.mark.parametrize("counted", LIMITS)
async def test_the_last_that_a_day_may_have_is_made_and_one_more_is_refused(
    makers: Makers, counted: Counted
) -> None:
    (maker, _), (most, things, in_chinese) = makers, LIMITS[counted]
    await maker.has_made(counted, most - 1)
    await maker.make(counted)
    with pytest.raises(Refusal) as refused:
        await maker.make(counted)
    assert refused.value.reason is Reason.ACCOUNT_LIMIT_REACHED
    assert refused.value.message("en") == (
        f"This account has reached its daily limit of {most} {things}: try again tomorrow."
    )
    assert refused.value.message("zh") == f"该账户{in_chinese}已达每日上限（{most}）：请明天再试。"
    assert await maker.counts() == [(counted.name.lower(), TODAY_S, most)]


async def test_accounts_and_kinds_of_things_are_counted_each_by_itself(makers: Makers) -> None:
    maker, other = makers
    await maker.has_made(Counted.TOKENS, 200)
    for _ in range(2):
        await maker.make(Counted.ROTATIONS)
    await other.make(Counted.TOKENS)
    assert await maker.counts() == [("rotations", TODAY_S, 2), ("tokens", TODAY_S, 200)]
    assert await other.counts() == [("tokens", TODAY_S, 1)]


async def test_the_next_day_begins_with_none_made(makers: Makers) -> None:
    maker, _ = makers
    await maker.has_made(Counted.WEBHOOKS, 50)
    # The shortest day has 23 hours.
    tomorrow_s = TODAY_S + 23 * HOUR_S
    await maker.make(Counted.WEBHOOKS, tomorrow_s)
    assert await maker.counts() == [("webhooks", tomorrow_s, 1)]


async def test_a_day_that_a_clock_ahead_began_is_the_day_of_all_nodes(makers: Makers) -> None:
    maker, _ = makers
    await maker.has_made(Counted.WEBHOOKS, 49)
    # The longest day has 25 hours.
    behind_s = TODAY_S - 25 * HOUR_S
    await maker.make(Counted.WEBHOOKS, behind_s)
    assert await maker.counts() == [("webhooks", TODAY_S, 50)]
    with pytest.raises(Refusal):
        await maker.make(Counted.WEBHOOKS, behind_s)


async def test_a_day_that_a_wrong_clock_began_far_ahead_does_not_count(makers: Makers) -> None:
    maker, _ = makers
    await maker.has_made(Counted.WEBHOOKS, 50)
    long_before_s = TODAY_S - 25 * HOUR_S - 1
    await maker.make(Counted.WEBHOOKS, long_before_s)
    assert await maker.counts() == [("webhooks", long_before_s, 1)]


def test_a_limit_of_all_at_a_time_is_not_called_a_daily_one() -> None:
    refusal = limit_reached(10, Phrase("webhooks", "的回调"), Phrase("end one", "请先停用一个"))
    assert refusal.reason is Reason.ACCOUNT_LIMIT_REACHED
    assert refusal.message("en") == "This account has reached its limit of 10 webhooks: end one."
    assert refusal.message("zh") == "该账户的回调已达上限（10）：请先停用一个。"
