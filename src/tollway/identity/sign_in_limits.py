"""How often a sign-in may be tried, counted in the database for all workers and nodes.

Three counts decide, each over a quarter of an hour: per login and address, per address, and per
login from everywhere. An attacker elsewhere cannot lock a person out: if a login is tried from many
addresses, each address still has one attempt, and a browser that has signed in with this login
before has a count of its own. The codes of second factors are counted in the same way, separately
from passwords and more strictly.
"""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import BigInteger, bindparam, case, or_, select

from tollway.store.database import Database, Reader, Transaction, transactional
from tollway.store.query import Query, insert
from tollway.store.schema.identity import sign_in_attempt
from tollway.store.small_commits import PieceBudget, delete_oldest

WINDOW_S = 15 * 60
# Per login and address, or known browser.
PAIR_MAX = 5
# Per address: a whole office may share one.
ADDRESS_MAX = 20
# Per login from everywhere; beyond that, one attempt per address.
LOGIN_MAX = 50
# Second-factor codes per login from everywhere, without an exception per address: the sender has
# the password, and a code has only six digits.
CODES_MAX = 10
_SWEEP_PIECES_MAX = 20


class TooManyAttemptsError(Exception):
    """There were too many attempts lately with this login, or from this address."""


class Attempt(NamedTuple):
    """One attempt: the kind of person, the login, and the address. `device` names the browser if it
    has signed in with this login before."""

    kind: str
    login: str
    address: str
    device: str = ""

    def counters(self) -> dict[str, bytes]:
        if self.device:
            return {"device": _counter(self.kind, "device", self.device, self.login)}
        return {
            "pair": _counter(self.kind, "pair", self.address, self.login),
            "address": _counter(self.kind, "address", self.address),
            "login": _counter(self.kind, "login", self.login),
        }


def _counter(*parts: str) -> bytes:
    return hashlib.sha256("\0".join(parts).encode()).digest()


_since_s, _now_s = (bindparam(name, type_=BigInteger) for name in ("since_s", "now_s"))
# Attempts dated in the future come from a wrong clock, and must not lock a person out.
_is_over = or_(
    sign_in_attempt.c.began_at_s <= _since_s, sign_in_attempt.c.began_at_s > _now_s + WINDOW_S
)
_is_wanted = sign_in_attempt.c.counter == bindparam("wanted")
_READ = Query(lambda: select(sign_in_attempt.c.attempts).where(_is_wanted, ~_is_over))
_new = insert(sign_in_attempt).values(counter=bindparam("wanted"), attempts=1, began_at_s=_now_s)
_COUNT = Query(
    lambda: _new.on_conflict_do_update(
        index_elements=[sign_in_attempt.c.counter],
        set_={
            "attempts": case((_is_over, 1), else_=sign_in_attempt.c.attempts + 1),
            "began_at_s": case((_is_over, _now_s), else_=sign_in_attempt.c.began_at_s),
        },
    ).returning(sign_in_attempt.c.attempts)
)
_UNCOUNT = Query(
    lambda: (
        sign_in_attempt.update()
        .where(_is_wanted, sign_in_attempt.c.attempts > 0)
        .values(attempts=sign_in_attempt.c.attempts - 1)
    )
)
_FORGET = Query(lambda: sign_in_attempt.delete().where(_is_wanted))
_SWEEP = delete_oldest(sign_in_attempt, sign_in_attempt.c.began_at_s)


async def count_attempt(
    database: Database, attempt: Attempt, now_s: int, *, is_code: bool = False
) -> None:
    """Counts an attempt before its password or code is checked, so that concurrent attempts count
    too. Raises TooManyAttemptsError, and writes nothing, if there were too many."""
    counters = attempt.counters()
    earlier = {name: await _count(database, each, now_s) for name, each in counters.items()}
    _refuse_surplus(earlier, is_code=is_code)

    async def work(transaction: Transaction) -> None:
        # A fixed lock order prevents deadlocks between workers.
        counted = {}
        for name, each in sorted(counters.items(), key=lambda counter: counter[1]):
            ((attempts,),) = await transaction.fetch_all(
                _COUNT, wanted=each, now_s=now_s, since_s=now_s - WINDOW_S
            )
            counted[name] = int(attempts) - 1
        _refuse_surplus(counted, is_code=is_code)

    await database.write(work)


@transactional
async def forget_attempts(transaction: Transaction, attempt: Attempt, *only: str) -> None:
    """After a success: forgets earlier mistakes with this login from here, and uncounts this
    attempt in the other counts; or in some counts only."""
    for name, each in sorted(attempt.counters().items(), key=lambda counter: counter[1]):
        if only and name not in only:
            continue
        # Otherwise one's own login could be used to reset the count of an address.
        undo = _UNCOUNT if name in ("address", "login") else _FORGET
        await transaction.execute(undo, wanted=each)


async def forget_mistakes(database: Database, attempt: Attempt) -> None:
    """After a password change: mistakes with the old one do not delay the first use of the new."""
    await forget_attempts(database, attempt, "pair", "device")


async def sweep_attempts(database: Database, now_s: int) -> int:
    """Removes counts whose window is over; returns how many."""
    return await PieceBudget(_SWEEP_PIECES_MAX).sweep(database, _SWEEP, until=now_s - WINDOW_S)


async def _count(reader: Reader, counter: bytes, now_s: int) -> int:
    row = await reader.fetch_one(_READ, wanted=counter, now_s=now_s, since_s=now_s - WINDOW_S)
    return 0 if row is None else int(row[0])


def _refuse_surplus(earlier: Mapping[str, int], *, is_code: bool) -> None:
    """Raises if there were too many attempts before this one."""
    if "device" in earlier:
        is_surplus = earlier["device"] >= PAIR_MAX
    else:
        login, pair = earlier["login"], earlier["pair"]
        of_login = login >= CODES_MAX if is_code else login >= LOGIN_MAX and pair > 0
        is_surplus = of_login or pair >= PAIR_MAX or earlier["address"] >= ADDRESS_MAX
    if is_surplus:
        raise TooManyAttemptsError
