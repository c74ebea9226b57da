"""The second factor: a six-digit code that a person's device shows (TOTP, RFC 6238).

A person with a second factor enters a code after the password. A code is accepted once: no worker
accepts it, or an older one, again. For a lost device there are ten recovery codes, each of which
works once. The secret is sealed; only hashes of recovery codes are stored.
"""

import base64
import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlencode

import msgspec
from sqlalchemy import Integer, String, bindparam, func, select, tuple_

from tollway.contract.language import Sentence
from tollway.identity.passwords import folded_login
from tollway.identity.sessions import end_sessions
from tollway.ledger import LedgerError
from tollway.ledger.runtime import Runtime
from tollway.ledger.trail import record_act
from tollway.store.database import Database, Reader, Transaction, transactional
from tollway.store.query import Query, alike, equals, insert_row
from tollway.store.schema.identity import recovery_code, second_factor

# Who only lists people seals nothing, and loads no cryptography.
if TYPE_CHECKING:
    from tollway.store.sealing import Sealer

STEP_S = 30
DIGITS = 6
# A device's clock may be half a minute off.
_STEPS_AROUND = 1
_SECRET_BYTES = 20
RECOVERY_CODES = 10
# No two of them look alike. Sixteen letters are 79 bits.
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
_GROUPS, _GROUP_LETTERS = 4, 4


class Holder(NamedTuple):
    """The person with a second factor: a kind and an id, and the login for lists."""

    kind: str
    subject_id: str
    login: str

    def __str__(self) -> str:
        return f"{self.kind} {self.login}"


class ListedFactor(msgspec.Struct, frozen=True):
    """A second factor as lists show it, with how many recovery codes are left."""

    kind: str
    subject_id: str
    login: str
    confirmed_at_s: int
    recovery_codes: int

    @property
    def holder(self) -> Holder:
        return Holder(self.kind, self.subject_id, self.login)


_its_key = equals(second_factor, kind="of_kind", subject_id="of_subject")
_FIND = Query(
    lambda: select(
        second_factor.c.sealed_secret, second_factor.c.confirmed_at_s, second_factor.c.last_step
    ).where(_its_key)
)
_codes_left = (
    select(func.count())
    .select_from(recovery_code)
    .where(alike(recovery_code, second_factor, "kind", "subject_id"))
    .scalar_subquery()
)
_confirmed = select(
    second_factor.c.kind,
    second_factor.c.subject_id,
    second_factor.c.login,
    second_factor.c.confirmed_at_s,
    _codes_left,
).where(second_factor.c.confirmed_at_s.is_not(None))
_ALL = Query(lambda: _confirmed.order_by(second_factor.c.kind, second_factor.c.login))
_ONE = Query(lambda: _confirmed.where(_its_key))
_login_order = (second_factor.c.login, second_factor.c.kind)
_PAGE = Query(
    lambda: (
        _confirmed.where(
            tuple_(*_login_order)
            > tuple_(bindparam("after_login", type_=String), bindparam("after_kind", type_=String))
        )
        .order_by(*_login_order)
        .limit(bindparam("most", type_=Integer))
    )
)
_OF_LOGIN = Query(
    lambda: _confirmed.where(second_factor.c.login == bindparam("wanted")).order_by(*_login_order)
)
_new = insert_row(second_factor)
# One statement, so that a factor that is confirmed at the same moment is not overwritten.
_BEGIN = Query(
    lambda: _new.on_conflict_do_update(
        index_elements=[second_factor.c.kind, second_factor.c.subject_id],
        set_={name: _new.excluded[name] for name in ("login", "sealed_secret", "last_step")},
        where=second_factor.c.confirmed_at_s.is_(None),
    )
)
_CONFIRM = Query(
    lambda: (
        second_factor.update()
        .where(
            _its_key,
            second_factor.c.confirmed_at_s.is_(None),
            second_factor.c.sealed_secret == bindparam("read_secret"),
        )
        .values(confirmed_at_s=bindparam("now_s"), last_step=bindparam("step"))
    )
)
_USE_STEP = Query(
    lambda: (
        second_factor.update()
        .where(_its_key, second_factor.c.last_step < bindparam("step"))
        .values(last_step=bindparam("step"))
    )
)
_REMOVE = Query(lambda: second_factor.delete().where(_its_key))
_ADD_CODE = Query(lambda: insert_row(recovery_code))
_of_holder = equals(recovery_code, kind="of_kind", subject_id="of_subject")
_USE_CODE = Query(
    lambda: recovery_code.delete().where(_of_holder, recovery_code.c.hash == bindparam("wanted"))
)
_REMOVE_CODES = Query(lambda: recovery_code.delete().where(_of_holder))


def code_at(secret: bytes, step: int) -> str:
    """The code of a time step."""
    digest = hmac.digest(secret, step.to_bytes(8, "big"), "sha1")
    start = digest[-1] & 15
    number = int.from_bytes(digest[start : start + 4], "big") & 0x7FFF_FFFF
    return f"{number % 10**DIGITS:0{DIGITS}}"


def secret_text(secret: bytes) -> str:
    """A secret as people type it into their device."""
    return base64.b32encode(secret).decode("ascii")


def device_address(secret: bytes, holder: Holder) -> str:
    """The content of the QR code."""
    label = quote(f"Tollway:{holder.login} ({holder.kind})")
    values = {"secret": secret_text(secret), "issuer": "Tollway"}
    return f"otpauth://totp/{label}?{urlencode(values)}"


@transactional
async def begin_factor(transaction: Transaction, sealer: "Sealer", holder: Holder) -> bytes:
    """A new secret, which takes effect once a code of it is entered; it replaces an unconfirmed
    one."""
    secret = secrets.token_bytes(_SECRET_BYTES)
    begun = await transaction.execute(
        _BEGIN,
        kind=holder.kind,
        subject_id=holder.subject_id,
        login=holder.login,
        sealed_secret=sealer.seal(secret, factor_context(holder.kind, holder.subject_id)),
        confirmed_at_s=None,
        last_step=0,
    )
    if not begun:
        raise LedgerError("There is a second factor already: turn it off first.")
    return secret


async def unconfirmed_secret(reader: Reader, sealer: "Sealer", holder: Holder) -> bytes | None:
    row = await reader.fetch_one(_FIND, **_key(holder))
    return None if row is None or row[1] is not None else _opened(sealer, holder, row[0])


async def confirm_factor(
    database: Database, runtime: Runtime, sealer: "Sealer", holder: Holder, code: str, now_s: int
) -> list[str] | None:
    """Requires the second factor from now on, and ends all sessions; returns the recovery codes, or
    None if the code is wrong or the factor is confirmed already."""
    row = await database.fetch_one(_FIND, **_key(holder))
    # Codes of a confirmed factor are compared only where attempts are counted.
    if row is None or row[1] is not None:
        return None
    step = _step(_opened(sealer, holder, row[0]), code, now_s, 0)
    if step is None:
        return None
    sealed, codes = row[0], [_recovery_code() for _ in range(RECOVERY_CODES)]

    async def work(transaction: Transaction) -> bool:
        values = {**_key(holder), "read_secret": sealed, "now_s": now_s, "step": step}
        if not await transaction.execute(_CONFIRM, **values):
            return False
        for each in codes:
            await transaction.execute(
                _ADD_CODE, kind=holder.kind, subject_id=holder.subject_id, hash=_hash(each)
            )
        await end_sessions(transaction, holder.kind, holder.subject_id, now_s)
        await record_act(transaction, runtime, "second-factor on", str(holder))
        return True

    return codes if await database.write(work) else None


async def find_factor(reader: Reader, kind: str, subject_id: str) -> ListedFactor | None:
    """A person's second factor; None if there is none, or it is not confirmed."""
    row = await reader.fetch_one(_ONE, of_kind=kind, of_subject=subject_id)
    return None if row is None else ListedFactor(*row)


async def use_code(
    database: Database, sealer: "Sealer", holder: Holder, typed: str, now_s: float
) -> bool:
    """Uses up a code of the device or a recovery code; False if it is wrong or already used."""
    row = await database.fetch_one(_FIND, **_key(holder))
    if row is None or row[1] is None:
        return False
    text = _plain(typed)
    use, values = _USE_CODE, {**_key(holder), "wanted": _hash(text)}
    if len(text) == DIGITS:
        step = _step(_opened(sealer, holder, row[0]), text, now_s, row[2])
        if step is None:
            return False
        use, values = _USE_STEP, {**_key(holder), "step": step}
    # False if another request with the same code was faster.
    return bool(await database.write(lambda transaction: transaction.execute(use, **values)))


@transactional
async def end_factor(
    transaction: Transaction, runtime: Runtime, holder: Holder, act: str = "second-factor off"
) -> None:
    """Turns the second factor off: the password is enough again."""
    removed = await remove_factor(transaction, holder.kind, holder.subject_id)
    if not removed:
        raise LedgerError(
            "The {kind} {login} has no second factor.",
            kind=Sentence(holder.kind),
            login=holder.login,
        )
    await record_act(transaction, runtime, act, str(holder))


async def reset_factor(database: Database, runtime: Runtime, holder: Holder) -> None:
    """For operators: helps a person who has neither the device nor a recovery code."""
    await end_factor(database, runtime, holder, "second-factor reset")


async def remove_factor(transaction: Transaction, kind: str, subject_id: str) -> int:
    # The factor first: this waits for a concurrent confirmation, and then sees its codes.
    removed = await transaction.execute(_REMOVE, of_kind=kind, of_subject=subject_id)
    await transaction.execute(_REMOVE_CODES, of_kind=kind, of_subject=subject_id)
    return removed


async def list_factors(reader: Reader) -> list[ListedFactor]:
    """All confirmed second factors."""
    return [ListedFactor(*row) for row in await reader.fetch_all(_ALL)]


async def factors_page(reader: Reader, after: tuple[str, str], most: int) -> list[ListedFactor]:
    """Confirmed second factors in the order of login and kind, after one."""
    rows = await reader.fetch_all(_PAGE, after_login=after[0], after_kind=after[1], most=most)
    return [ListedFactor(*row) for row in rows]


async def factors_of_login(reader: Reader, login: str) -> list[ListedFactor]:
    """The confirmed second factors of this login, which people of several kinds may have."""
    rows = await reader.fetch_all(_OF_LOGIN, wanted=folded_login(login))
    return [ListedFactor(*row) for row in rows]


def factor_context(kind: str, subject_id: str) -> bytes:
    return msgspec.json.encode(("second factor", kind, subject_id))


def _step(secret: bytes, code: str, now_s: float, last_step: int) -> int | None:
    """The newest step that the code belongs to; None if there is none after the last one used."""
    current, found = int(now_s) // STEP_S, None
    for step in range(current - _STEPS_AROUND, current + _STEPS_AROUND + 1):
        is_right = hmac.compare_digest(code_at(secret, step).encode(), _plain(code).encode())
        if is_right and step > last_step:
            found = step
    return found


def _opened(sealer: "Sealer", holder: Holder, sealed: bytes) -> bytes:
    return sealer.open(bytes(sealed), factor_context(holder.kind, holder.subject_id))


def _recovery_code() -> str:
    letters = [secrets.choice(_LETTERS) for _ in range(_GROUPS * _GROUP_LETTERS)]
    return "-".join("".join(letters[at::_GROUPS]) for at in range(_GROUPS))


def _plain(typed: str) -> str:
    """What was typed, without the spaces and hyphens that make it readable."""
    return "".join(typed.split()).replace("-", "").casefold()


def _hash(code: str) -> bytes:
    return hashlib.sha256(_plain(code).encode()).digest()


def _key(holder: Holder) -> dict[str, object]:
    return {"of_kind": holder.kind, "of_subject": holder.subject_id}
