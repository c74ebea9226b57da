"""Sessions of people who signed in, stored in the database, so that an ended one works nowhere.

The cookie has 256 random bits, and only their hash is stored: a copy of the database does not
sign anyone in. A session ends at sign-out, when it is not used for a while, or when it is too old.
"""

import hashlib
import secrets
from collections.abc import Awaitable, Callable

import msgspec
from sqlalchemy import bindparam, select

from tollway.store.database import Database, Reader, Transaction, transactional
from tollway.store.query import Query, equals, insert_row
from tollway.store.schema.identity import session
from tollway.store.small_commits import PieceBudget, delete_oldest

# The prefix of every session cookie; others need no query.
PREFIX = "s."
LIFETIME_S = 12 * 3600
IDLE_S = 30 * 60
# A page view stores its time, but not more often than this.
_SEEN_STEP_S = 60
# Rows stay this long, for questions about when a session ended.
_KEPT_S = 30 * 86_400
_SWEEP_PIECES_MAX = 20
# People may sign in as often as they like, but beyond this the oldest sessions are deleted.
OF_PERSON_MAX = 100


class Session(msgspec.Struct, frozen=True):
    """A person's session: `kind` and `subject_id` say whose it is."""

    kind: str
    subject_id: str
    started_at_s: int
    seen_at_s: int
    expires_at_s: int
    ended_at_s: int | None

    def holds(self, now_s: float) -> bool:
        is_idle = self.seen_at_s + IDLE_S <= now_s
        # One dated in the future began while a clock was ahead: it would last until then.
        is_astray = self.started_at_s > now_s + IDLE_S
        is_over = is_idle or is_astray or now_s >= self.expires_at_s
        return self.ended_at_s is None and not is_over


_COLUMNS = tuple(session.c[name] for name in Session.__struct_fields__)
_of_person = equals(session, kind="of_kind", subject_id="of_subject")
_INSERT = Query(lambda: insert_row(session))
_DROP_OLDEST = Query(
    lambda: session.delete().where(
        session.c.hash.in_(
            select(session.c.hash)
            .where(_of_person)
            .order_by(session.c.started_at_s.desc(), session.c.hash)
            .offset(OF_PERSON_MAX - 1)
        )
    )
)
_is_wanted = session.c.hash == bindparam("wanted")
_FIND = Query(lambda: select(*_COLUMNS).where(_is_wanted))
_HOLD = Query(lambda: select(*_COLUMNS).where(_is_wanted).with_for_update(read=True))
_SEEN = Query(
    lambda: (
        session.update()
        .where(_is_wanted, session.c.seen_at_s < bindparam("now_s"))
        .values(seen_at_s=bindparam("now_s"))
    )
)
_END = Query(
    lambda: (
        session.update()
        .where(_is_wanted, session.c.ended_at_s.is_(None))
        .values(ended_at_s=bindparam("now_s"))
    )
)
_END_ALL = Query(
    lambda: (
        session.update()
        # Expired ones too: if this node's clock is ahead, other nodes still accept them.
        .where(_of_person, session.c.ended_at_s.is_(None))
        .values(ended_at_s=bindparam("now_s"))
        .returning(session.c.expires_at_s)
    )
)
_SWEEP = delete_oldest(session, session.c.expires_at_s)


class ChangedMeanwhileError(Exception):
    """What a person signed in with is no longer valid."""


@transactional
async def start_session(
    transaction: Transaction,
    kind: str,
    subject_id: str,
    now_s: float,
    is_unchanged: Callable[[Reader], Awaitable[bool]] | None = None,
) -> str:
    """Signs a person in; returns the cookie. Raises ChangedMeanwhileError if what was checked
    before has changed: that change ended all sessions, and must end this one too."""
    cookie, at_s = PREFIX + secrets.token_urlsafe(32), int(now_s)
    started = Session(kind, subject_id, at_s, at_s, at_s + LIFETIME_S, None)
    await _one_at_a_time(transaction, kind, subject_id)
    if is_unchanged is not None and not await is_unchanged(transaction):
        raise ChangedMeanwhileError
    await transaction.execute(_DROP_OLDEST, of_kind=kind, of_subject=subject_id)
    await transaction.execute(_INSERT, hash=_hash(cookie), **msgspec.structs.asdict(started))
    return cookie


async def find_session(
    database: Database, cookie: str, now_s: float, *, is_used: bool = True
) -> Session | None:
    """The session of a cookie, if it is valid; stores that a person used it, if one did."""
    row = await database.fetch_one(_FIND, wanted=_hash(cookie))
    found = None if row is None else Session(*row)
    if found is None or not found.holds(now_s):
        return None
    if is_used and found.seen_at_s + _SEEN_STEP_S <= now_s:
        await database.write_statement(_SEEN, wanted=_hash(cookie), now_s=int(now_s))
    return found


async def hold_session(transaction: Transaction, cookie: str, now_s: float) -> bool:
    """Whether a session is valid; no other transaction can end it before this one ends."""
    row = await transaction.fetch_one(_HOLD, wanted=_hash(cookie))
    return row is not None and Session(*row).holds(now_s)


async def end_session(database: Database, cookie: str, now_s: float) -> None:
    """Signs out: copies of the cookie are useless from now on."""
    await database.write_statement(_END, wanted=_hash(cookie), now_s=int(now_s))


async def end_sessions(transaction: Transaction, kind: str, subject_id: str, now_s: float) -> int:
    """Signs a person out everywhere; returns how many sessions that ended."""
    await _one_at_a_time(transaction, kind, subject_id)
    rows = await transaction.fetch_all(
        _END_ALL, of_kind=kind, of_subject=subject_id, now_s=int(now_s)
    )
    return sum(expires_at_s > now_s for (expires_at_s,) in rows)


async def _one_at_a_time(transaction: Transaction, kind: str, subject_id: str) -> None:
    """Locks a person's sessions: a concurrent start is ended too, or sees what has changed."""
    await transaction.lock_names([f"sessions of {kind} {subject_id}"])


async def sweep_sessions(database: Database, now_s: int) -> int:
    """Removes rows of sessions that ended long enough ago; returns how many."""
    return await PieceBudget(_SWEEP_PIECES_MAX).sweep(database, _SWEEP, until=now_s - _KEPT_S)


def _hash(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode()).digest()
