"""Who may push: sources by name, each with one or two secrets that its pushes are signed with.

A secret is shown once, when it is made. It must be known to check a signature, so it is kept, but
sealed. Rotating makes a new one; the one before it goes on being accepted until the next rotation.
"""

import base64
import secrets

import msgspec
from sqlalchemy import bindparam, select

from tollway.intake.files import IntakeError
from tollway.store.database import Database, Reader, Transaction
from tollway.store.query import Query
from tollway.store.schema.intake import push_source
from tollway.store.sealing import Sealer

SECRET_PREFIX = "whsec_"  # noqa: S105 - the prefix of every secret, and no secret itself
_SECRET_BYTES = 32
_ACTIVE_SECRETS = 2


class Source(msgspec.Struct, frozen=True):
    """A source, as it is shown."""

    name: str
    added_at_s: int
    rotated_at_s: int | None


class SourceSecret(msgspec.Struct, frozen=True):
    """A source with the secret that was made for it just now."""

    source: Source
    secret: str


_ADD = Query(push_source.insert().values({c.name: bindparam(c.name) for c in push_source.c}))
_LIST = Query(
    select(*(push_source.c[name] for name in Source.__struct_fields__)).order_by(push_source.c.name)
)
_FIND = Query(select(push_source).where(push_source.c.name == bindparam("wanted")))
_FIND_TO_CHANGE = Query(
    select(push_source).where(push_source.c.name == bindparam("wanted")).with_for_update()
)
_ROTATE = Query(
    push_source.update()
    .where(push_source.c.name == bindparam("wanted"))
    .values(sealed_secrets=bindparam("new_secrets"), rotated_at_s=bindparam("at_s"))
)


async def add_source(database: Database, sealer: Sealer, name: str, at_s: int) -> SourceSecret:
    if not _can_be_name(name):
        raise IntakeError("A source's name is 1 to 64 plain characters without spaces.")
    secret = _new_secret()

    async def work(transaction: Transaction) -> None:
        if await transaction.fetch_one(_FIND, wanted=name) is not None:
            raise IntakeError(f"There is a source {name} already.")
        await transaction.execute(
            _ADD,
            name=name,
            sealed_secrets=_sealed(sealer, name, [secret]),
            added_at_s=at_s,
            rotated_at_s=None,
        )

    await database.write(work)
    return SourceSecret(Source(name, at_s, None), secret)


async def rotate_secret(database: Database, sealer: Sealer, name: str, at_s: int) -> SourceSecret:
    secret = _new_secret()

    async def work(transaction: Transaction) -> SourceSecret:
        row = await transaction.fetch_one(_FIND_TO_CHANGE, wanted=name)
        if row is None:
            raise IntakeError(f"There is no source {name}: `tollway source list` shows them all.")
        active = [secret, *_opened(sealer, name, row[1])][:_ACTIVE_SECRETS]
        sealed = _sealed(sealer, name, active)
        await transaction.execute(_ROTATE, wanted=name, new_secrets=sealed, at_s=at_s)
        return SourceSecret(Source(name, row[2], at_s), secret)

    return await database.write(work)


async def list_sources(reader: Reader) -> list[Source]:
    return [Source(*row) for row in await reader.fetch_all(_LIST)]


async def active_keys(reader: Reader, sealer: Sealer, name: str) -> list[bytes]:
    """The keys that a source's pushes may be signed with, the newest first; none if unknown. What
    cannot be one's name is not asked for: a database may not even take it."""
    if not _can_be_name(name):
        return []
    row = await reader.fetch_one(_FIND, wanted=name)
    if row is None:
        return []
    return [key_of(secret) for secret in _opened(sealer, name, row[1])]


def key_of(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(SECRET_PREFIX))


def _can_be_name(name: str) -> bool:
    return 0 < len(name) <= 64 and name.isascii() and name.isprintable() and " " not in name


def _new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def _sealed(sealer: Sealer, name: str, active: list[str]) -> bytes:
    return sealer.seal(msgspec.json.encode(active), _context(name))


def _opened(sealer: Sealer, name: str, sealed: bytes) -> list[str]:
    return msgspec.json.decode(sealer.open(sealed, _context(name)), type=list[str])


def _context(name: str) -> bytes:
    return f"push_source\0{name}".encode()
