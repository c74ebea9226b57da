"""Who may push: sources by name, each with one or two secrets that its pushes are signed with.

A secret is shown once, when it is made. Checking a signature needs it, so it is stored, but sealed.
Rotating makes a new secret; the previous one stays valid until the next rotation. A source speaks
for the shops and channels that it was given: the gateway accepts nothing else from it.
"""

from collections.abc import Callable, Mapping
from secrets import token_bytes
from typing import NamedTuple

import msgspec
from sqlalchemy import bindparam, select

from tollway.intake.raw_records import IntakeError
from tollway.intake.record_problems import RecordError
from tollway.ledger.runtime import Runtime
from tollway.ledger.trail import record_act
from tollway.store.database import Reader, Row, Transaction, transactional
from tollway.store.query import Query, changed, insert_row
from tollway.store.schema.intake import push_source
from tollway.store.sealing import Sealer
from tollway.webhooks.signature import (
    ACTIVE_SECRETS,
    key_of,
    new_secret,
    opened_secrets,
    sealed_secrets,
)

ALL = "*"
_SPOKEN_FOR_MAX = 1000


class SourceScope(msgspec.Struct, frozen=True):
    """The shops whose orders, and the channels (sid) whose claims, a source may push; * is all."""

    shop: tuple[str, ...] = ()
    channel: tuple[str, ...] = ()

    def has(self, which: str, name: str) -> bool:
        allowed = self.shop if which == "shop" else self.channel
        return ALL in allowed or name in allowed

    def check(self, spoken_for: tuple[str, str], values: Mapping[str, object]) -> None:
        """Raises RecordError if a record is of another shop or channel."""
        which, field = spoken_for
        if not self.has(which, str(values.get(field)).strip()):
            raise RecordError(
                field, f"this source does not speak for the {which}", f"records of its own {which}s"
            )


class Source(msgspec.Struct, frozen=True):
    """A source, as it is shown."""

    name: str
    speaks_for: SourceScope
    added_at_s: int
    rotated_at_s: int | None


class SourceSecret(msgspec.Struct, frozen=True):
    """A source with the secret that was just made for it."""

    source: Source
    secret: str


_ADD = Query(lambda: insert_row(push_source))
_LIST = Query(lambda: select(push_source).order_by(push_source.c.name))
_is_wanted = push_source.c.name == bindparam("wanted")
_FIND = Query(lambda: select(push_source).where(_is_wanted))
_FIND_TO_CHANGE = Query(lambda: select(push_source).where(_is_wanted).with_for_update())
_SPEAK = Query(lambda: changed(push_source, speaks_for="speaks_for").where(_is_wanted))
_ROTATE = Query(
    lambda: changed(push_source, sealed_secrets="new_secrets", rotated_at_s="at_s").where(
        _is_wanted
    )
)


@transactional
async def add_source(
    transaction: Transaction, sealer: Sealer, name: str, speaks_for: SourceScope, runtime: Runtime
) -> SourceSecret:
    if not _can_be_name(name):
        raise IntakeError("A source's name is 1 to 64 plain characters without spaces.", name=name)
    speaks_for = _checked(speaks_for)
    secret = new_secret()
    added = Source(name, speaks_for, runtime.at_s(), None)
    if await transaction.fetch_one(_FIND, wanted=name) is not None:
        raise IntakeError(
            "There is a source {source} already: `tollway source set` changes what it speaks "
            "for, `tollway source rotate` gives it a new secret.",
            source=name,
        )
    await transaction.execute(
        _ADD,
        name=name,
        speaks_for=_encoded(speaks_for),
        sealed_secrets=sealed_secrets(sealer, secrets_context(name), [secret]),
        added_at_s=added.added_at_s,
        rotated_at_s=None,
    )
    await record_act(transaction, runtime, "source add", f"source {name}", after=added)
    return SourceSecret(added, secret)


@transactional
async def set_source_scope(
    transaction: Transaction, name: str, speaks_for: SourceScope, runtime: Runtime
) -> Source:
    """Changes for whom a source speaks."""
    speaks_for = _checked(speaks_for)
    before = _source(await _found(transaction, name))
    await transaction.execute(_SPEAK, wanted=name, speaks_for=_encoded(speaks_for))
    after = msgspec.structs.replace(before, speaks_for=speaks_for)
    subject = f"source {name}"
    await record_act(transaction, runtime, "source set", subject, before=before, after=after)
    return after


@transactional
async def rotate_secret(
    transaction: Transaction,
    sealer: Sealer,
    name: str,
    runtime: Runtime,
    *,
    is_expected: Callable[[Source], bool] = lambda _: True,
) -> SourceSecret:
    """Makes a new secret, unless the source is not as expected: otherwise a form that is sent twice
    would invalidate the secret that the source still uses."""
    secret = new_secret()
    row = await _found(transaction, name)
    before = _source(row)
    if not is_expected(before):
        raise IntakeError(
            "The secret of {source} was changed meanwhile: no other was made.", source=name
        )
    context, at_s = secrets_context(name), runtime.at_s()
    active = [secret, *opened_secrets(sealer, context, row[2])][:ACTIVE_SECRETS]
    sealed = sealed_secrets(sealer, context, active)
    await transaction.execute(_ROTATE, wanted=name, new_secrets=sealed, at_s=at_s)
    rotated = msgspec.structs.replace(before, rotated_at_s=at_s)
    subject = f"source {name}"
    await record_act(transaction, runtime, "source rotate", subject, before=before, after=rotated)
    return SourceSecret(rotated, secret)


async def list_sources(reader: Reader) -> list[Source]:
    return [_source(row) for row in await reader.fetch_all(_LIST)]


class KnownSource(NamedTuple):
    """The keys that a source's pushes may be signed with, the newest first, and for whom it
    speaks."""

    keys: list[bytes]
    speaks_for: SourceScope


# No sender has these keys. Every source has as many, so that refusing a push takes as long whether
# its source is known or not, and rotated or not.
_NO_ONES_KEYS = [token_bytes(32) for _ in range(ACTIVE_SECRETS)]
_UNKNOWN = KnownSource(_NO_ONES_KEYS, SourceScope())


async def find_source(reader: Reader, sealer: Sealer, name: str) -> KnownSource:
    """A source; if it is unknown, nothing can be signed for it. A name that no source can have is
    not looked up: a database may not even accept it."""
    row = await reader.fetch_one(_FIND, wanted=name) if _can_be_name(name) else None
    if row is None:
        return _UNKNOWN
    active = opened_secrets(sealer, secrets_context(name), row[2])
    keys = [*map(key_of, active), *_NO_ONES_KEYS]
    return KnownSource(keys[:ACTIVE_SECRETS], _source(row).speaks_for)


async def _found(transaction: Transaction, name: str) -> Row:
    row = await transaction.fetch_one(_FIND_TO_CHANGE, wanted=name)
    if row is None:
        raise IntakeError(
            "There is no source {source}: `tollway source list` shows them all.", source=name
        )
    return row


def _source(row: Row) -> Source:
    name, speaks_for, _, added_at_s, rotated_at_s = row
    return Source(name, msgspec.json.decode(speaks_for, type=SourceScope), added_at_s, rotated_at_s)


def _encoded(speaks_for: SourceScope) -> str:
    return msgspec.json.encode(speaks_for).decode()


def _checked(speaks_for: SourceScope) -> SourceScope:
    """Checks and trims the names; those in records are trimmed too before they are compared."""
    shops, channels = (
        tuple(each.strip() for each in names) for names in (speaks_for.shop, speaks_for.channel)
    )
    named = (*shops, *channels)
    if not named:
        raise IntakeError(
            "Say which shops or channels the source speaks for: --shop OWNER_ID, --channel SID."
        )
    if len(named) > _SPOKEN_FOR_MAX or any(not 0 < len(each) <= 64 for each in named):
        raise IntakeError(
            "A source speaks for at most {most:,} shops and channels, each named "
            "with 1 to 64 characters; * is all of them.",
            most=_SPOKEN_FOR_MAX,
        )
    return SourceScope(shops, channels)


def _can_be_name(name: str) -> bool:
    return 0 < len(name) <= 64 and name.isascii() and name.isprintable() and " " not in name


def secrets_context(name: str) -> bytes:
    return f"push_source\0{name}".encode()
