"""How much a caller may create in a day free of charge, so that free calls fill no table.

Each account has one row per kind of thing, with today's count. One conditional statement changes it
in the transaction that creates the thing, so the limit is exact, however many nodes do so at once.
A day begins at midnight in the gateway's time zone. What operators create, and what pages create
for themselves, is not counted.
"""

from enum import Enum
from typing import NamedTuple

from sqlalchemy import BigInteger, bindparam, case, or_

from tollway.contract.language import Phrase
from tollway.contract.reasons import Reason, Refusal
from tollway.store.database import Transaction
from tollway.store.query import Query, insert
from tollway.store.schema.ledger import account_day

# A node whose clock is ahead may have begun the next day: all nodes then count in that day. A day
# with a clock change is up to 25 hours long.
_AHEAD_S = 25 * 3600
_AT_A_TIME = Phrase("limit", "上限")
_A_DAY = Phrase("daily limit", "每日上限")
_ADVICE = Phrase("try again tomorrow", "请明天再试")


class _Limit(NamedTuple):
    most: int
    things: Phrase


class Counted(Enum):
    """What is counted, and how many are allowed in a day. Rotations count separately: an account
    that has made all its tokens can still replace a leaked one. So do refused hosts: while the
    gateway's own name server fails, every host is refused."""

    TOKENS = _Limit(200, Phrase("new tokens", "新建的令牌"))
    ROTATIONS = _Limit(200, Phrase("token rotations", "轮换的令牌"))
    WEBHOOKS = _Limit(50, Phrase("new webhooks", "新建的回调"))
    REFUSED_HOSTS = _Limit(50, Phrase("webhooks with a refused host", "主机被拒绝的回调"))
    SECRETS = _Limit(50, Phrase("new webhook secrets", "更换的回调密钥"))
    EVENTS = _Limit(200, Phrase("test events", "发送的测试事件"))
    ALERTS = _Limit(200, Phrase("alert changes", "更改的提醒"))
    INVITATIONS = _Limit(50, Phrase("invitations", "发出的邀请"))
    ROLES = _Limit(200, Phrase("role changes", "更改的角色"))
    AGENT_SESSIONS = _Limit(1000, Phrase("new agent sessions", "新建的智能体会话"))


_day = bindparam("of_day_s", type_=BigInteger)
_is_its_day = account_day.c.day_start_s.between(_day, _day + _AHEAD_S)
_COUNT = Query(
    lambda: (
        insert(account_day)
        .values(
            account_id=bindparam("of_account"),
            counted=bindparam("what"),
            day_start_s=_day,
            number=1,
        )
        .on_conflict_do_update(
            index_elements=["account_id", "counted"],
            set_={
                "day_start_s": case((_is_its_day, account_day.c.day_start_s), else_=_day),
                "number": case((_is_its_day, account_day.c.number), else_=0) + 1,
            },
            where=or_(~_is_its_day, account_day.c.number < bindparam("most", type_=BigInteger)),
        )
    )
)


async def count_today(
    transaction: Transaction, account_id: str, counted: Counted, day_start_s: int
) -> None:
    """Counts one more in the day that began at `day_start_s`, or refuses it. Locks this count of
    the account until the transaction ends."""
    most, things = counted.value
    values = {"of_account": account_id, "what": counted.name.lower(), "of_day_s": day_start_s}
    if not await transaction.execute(_COUNT, **values, most=most):
        raise limit_reached(most, things, _ADVICE, which=_A_DAY)


def limit_reached(
    most: int, things: Phrase, advice: Phrase, *, which: Phrase = _AT_A_TIME
) -> Refusal:
    """The refusal of one more, by default because of a limit on how many may exist at a time."""
    return Refusal(
        Reason.ACCOUNT_LIMIT_REACHED, which=which, most=most, things=things, advice=advice
    )
