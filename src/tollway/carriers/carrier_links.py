"""The links to carriers that issue their own numbers.

Signing messages needs the secret of a link, so it is stored, but sealed. The seal is bound to the
address and the protocol as well: a link that was altered in the database does not open, so this
gateway never signs a message for another address than the operator named.
"""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

import msgspec
from sqlalchemy import bindparam, func, literal_column, select

from tollway.carriers import CarrierError
from tollway.carriers.carriers import (
    CARRIER_COLUMNS,
    Carrier,
    carrier_of,
    known_carrier,
    lock_carrier,
)
from tollway.contract.addresses import is_loopback
from tollway.contract.language import Sentence
from tollway.ledger.runtime import UNATTENDED, Runtime
from tollway.ledger.trail import record_act
from tollway.store.database import Reader, Row, Transaction, transactional
from tollway.store.query import Query, upsert
from tollway.store.schema.carriers import IS_CHANGING, IS_PENDING, carrier, carrier_link, waybill
from tollway.store.sealing import Sealer

# The built-in protocols.
CAINIAO_LINK, SIGNED_FORM = "cainiao-link", "signed-form"
DEADLINE_MS = 5000
SETTLE_AFTER_S = 60
DEADLINE_MS_MAX = 60_000
SETTLE_AFTER_S_MAX = 86_400
_TEXT_MAX = 64
_URL_MAX = 2000
_SECRET_MAX = 256


class CarrierLink(msgspec.Struct, frozen=True):
    """How to reach a carrier, without the secret.

    `provider_id` and `to_code` identify this gateway and the carrier in messages. `deadline_ms` is
    how long a message may take; `settle_after_s` is how old one must be before the carrier's "I do
    not know it" counts.
    """

    wp_code: str
    url: str
    provider_id: str
    to_code: str
    deadline_ms: int
    settle_after_s: int
    changed_at_s: int
    protocol: str = SIGNED_FORM
    # The label's template at the carrier, if its protocol needs one.
    template_url: str = ""


@dataclass(frozen=True)
class OpenedCarrierLink:
    """A link with its secret, for the connector that sends messages over it."""

    link: CarrierLink
    secret: str = field(repr=False)


_PLAIN = tuple(carrier_link.c[name] for name in CarrierLink.__struct_fields__)
_ALL = Query(lambda: select(*_PLAIN).order_by(carrier_link.c.wp_code))
_FIND = Query(
    lambda: select(*_PLAIN, carrier_link.c.sealed_secret).where(
        carrier_link.c.wp_code == bindparam("wanted")
    )
)
# While a waybill begins, its carrier's link may get a new secret; a change of its destination, or
# its removal, waits for this lock.
_KEEP = Query(
    lambda: (
        select(*_PLAIN, carrier_link.c.sealed_secret)
        .where(carrier_link.c.wp_code == bindparam("wanted"))
        .with_for_update(read=True, key_share=True)
    )
)
_LOCK = Query(
    lambda: (
        select(carrier_link.c.wp_code)
        .where(carrier_link.c.wp_code == bindparam("wanted"))
        .with_for_update()
    )
)
_FIND_BOTH = Query(
    lambda: (
        select(*CARRIER_COLUMNS, *_PLAIN, carrier_link.c.sealed_secret)
        .join_from(carrier, carrier_link, carrier_link.c.wp_code == carrier.c.wp_code, isouter=True)
        .where(carrier.c.wp_code == bindparam("wanted"))
    )
)
_PUT = upsert(carrier_link)
_DELETE = Query(lambda: carrier_link.delete().where(carrier_link.c.wp_code == bindparam("wanted")))
_of_carrier = (
    select(func.count()).select_from(waybill).where(waybill.c.wp_code == bindparam("wanted"))
)
_PENDING = Query(lambda: _of_carrier.where(literal_column(IS_PENDING)))
_CHANGING = Query(lambda: _of_carrier.where(literal_column(IS_CHANGING)))


@transactional
async def connect(
    transaction: Transaction,
    sealer: Sealer,
    link: CarrierLink,
    secret: str,
    *,
    allows_plain: bool = False,
    runtime: Runtime = UNATTENDED,
) -> None:
    """Adds the link of a carrier, or changes it."""
    _check_link(link, secret, allows_plain=allows_plain)
    await lock_carrier(transaction, link.wp_code)
    await known_carrier(transaction, link.wp_code)
    before = await transaction.fetch_one(_FIND, wanted=link.wp_code)
    if before is not None and _destination(CarrierLink(*before[:-1])) != _destination(link):
        await _lock_unless_pending(transaction, link.wp_code)
    sealed = sealer.seal(secret.encode(), _context(link))
    await transaction.execute(_PUT, **msgspec.structs.asdict(link), sealed_secret=sealed)
    await record_act(
        transaction,
        runtime,
        "carrier connect",
        f"carrier {link.wp_code}",
        before=None if before is None else CarrierLink(*before[:-1]),
        after=link,
    )


def _check_link(link: CarrierLink, secret: str, *, allows_plain: bool) -> None:
    _check_url(link.url, allows_plain=allows_plain)
    if link.template_url:
        _check_url(link.template_url, allows_plain=True)
    if link.protocol == CAINIAO_LINK and not link.template_url:
        raise CarrierError("LINK needs the label's template: name its address with --template.")
    for name, text in (("provider", link.provider_id), ("to_code", link.to_code)):
        may_be_empty = name == "to_code" and link.protocol == CAINIAO_LINK
        if (
            not (may_be_empty or text)
            or len(text) > _TEXT_MAX
            or not text.isprintable()
            or " " in text
        ):
            raise CarrierError(
                "The {what} {text!r} cannot be: it is 1 to {most} characters, no spaces.",
                what=Sentence(name),
                text=text,
                most=_TEXT_MAX,
            )
    if not 0 < len(secret) <= _SECRET_MAX or not secret.isprintable():
        raise CarrierError(
            "A carrier's secret is one line of 1 to {most} characters.", most=_SECRET_MAX
        )
    if link.settle_after_s * 1000 < 2 * link.deadline_ms:
        raise CarrierError(
            "{settle_after_s} s is less than twice the deadline of {deadline_ms} ms: until "
            "then a message may still arrive.",
            settle_after_s=link.settle_after_s,
            deadline_ms=link.deadline_ms,
        )


@transactional
async def disconnect(transaction: Transaction, wp_code: str, runtime: Runtime = UNATTENDED) -> None:
    """Removes a link: the carrier's numbers come from the pool again."""
    await lock_carrier(transaction, wp_code)
    await _lock_unless_pending(transaction, wp_code)
    before = await transaction.fetch_one(_FIND, wanted=wp_code)
    if before is None:
        raise CarrierError(
            "Carrier {wp_code} is not connected: its numbers are in the pool.", wp_code=wp_code
        )
    await transaction.execute(_DELETE, wanted=wp_code)
    gone = CarrierLink(*before[:-1])
    await record_act(transaction, runtime, "carrier disconnect", f"carrier {wp_code}", before=gone)


async def find_link(reader: Reader, sealer: Sealer, wp_code: str) -> OpenedCarrierLink | None:
    row = await reader.fetch_one(_FIND, wanted=wp_code)
    return None if row is None else _opened(row, sealer)


async def keep_link(
    transaction: Transaction, sealer: Sealer, wp_code: str
) -> OpenedCarrierLink | None:
    """The link, locked so that it keeps its destination until the transaction ends."""
    row = await transaction.fetch_one(_KEEP, wanted=wp_code)
    return None if row is None else _opened(row, sealer)


def _opened(row: Row, sealer: Sealer) -> OpenedCarrierLink:
    link = CarrierLink(*row[:-1])
    return OpenedCarrierLink(link, sealer.open(row[-1], _context(link)).decode())


LinkedCarrier = tuple[Carrier, OpenedCarrierLink | None]


async def find_linked_carrier(reader: Reader, sealer: Sealer, wp_code: str) -> LinkedCarrier | None:
    """A carrier and its link, if it has one, by one statement."""
    row = await reader.fetch_one(_FIND_BOTH, wanted=wp_code)
    if row is None:
        return None
    of_carrier, of_link = row[: len(CARRIER_COLUMNS)], row[len(CARRIER_COLUMNS) :]
    return carrier_of(of_carrier), None if of_link[-1] is None else _opened(of_link, sealer)


async def list_links(reader: Reader) -> list[CarrierLink]:
    return [CarrierLink(*row) for row in await reader.fetch_all(_ALL)]


async def _lock_unless_pending(transaction: Transaction, wp_code: str) -> None:
    # Before the lock too: on a busy carrier, the lock is hardly ever free.
    await _refuse_while_pending(transaction, wp_code)
    await transaction.fetch_one(_LOCK, wanted=wp_code)
    await _refuse_while_pending(transaction, wp_code)


async def _refuse_while_pending(transaction: Transaction, wp_code: str) -> None:
    row = await transaction.fetch_one(_PENDING, wanted=wp_code)
    if row is not None and row[0]:
        raise CarrierError(
            "Carrier {wp_code} still has to say what became of waybills ({count:,}): run "
            "`tollway reconcile` first, because only this carrier knows; of those that it "
            "cannot be asked for, find out and decide with `tollway reconcile --decide "
            "ORDER`.",
            wp_code=wp_code,
            count=row[0],
        )
    row = await transaction.fetch_one(_CHANGING, wanted=wp_code)
    if row is not None and row[0]:
        raise CarrierError(
            "Carrier {wp_code} has not confirmed another receiver of waybills ({count:,}): "
            "have the changes sent again, cancel the waybills, or find out which receiver it "
            "has and run `tollway reconcile --decide ORDER --receiver-kept`.",
            wp_code=wp_code,
            count=row[0],
        )


def _destination(link: CarrierLink) -> tuple[str, ...]:
    """Where messages go, how, and in whose name: another destination would not know them."""
    return (link.protocol, link.url, link.provider_id, link.to_code)


def _context(link: CarrierLink) -> bytes:
    return secret_context(link.wp_code, *_destination(link))


def secret_context(wp_code: str, *destination: str) -> bytes:
    """What the seal of a secret is bound to."""
    return msgspec.json.encode(("carrier_link", wp_code, *destination))


def _check_url(url: str, *, allows_plain: bool) -> None:
    if len(url) > _URL_MAX or not url.isascii() or not url.isprintable() or " " in url:
        raise CarrierError("The address has plain characters only, at most {most}.", most=_URL_MAX)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or port == 0 or parts.scheme not in ("https", "http"):
        raise CarrierError("{url} is no address: write https://HOST/PATH.", url=url)
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise CarrierError("An address has no user name, password or #part: give the rest alone.")
    if parts.scheme == "http" and not allows_plain and not is_loopback(host):
        raise CarrierError(
            "{url} would carry names and addresses unencrypted: use https://, or "
            "--plain-http where the network itself is trusted.",
            url=url,
        )
