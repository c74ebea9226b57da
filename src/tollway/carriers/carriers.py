"""The carriers that an operator has added, and where each of them delivers."""

import re
from collections.abc import Sequence
from enum import Enum

import msgspec
from sqlalchemy import bindparam, select

from tollway.carriers import CarrierError
from tollway.carriers.divisions import listed_provinces
from tollway.carriers.number_formats import KNOWN_FORMATS, check_format
from tollway.contract.language import Phrase
from tollway.ledger.runtime import UNATTENDED, Runtime
from tollway.ledger.trail import record_act
from tollway.store.database import Reader, Row, Transaction, transactional
from tollway.store.query import Query, upsert
from tollway.store.schema.carriers import carrier

_NOT_SERVED = Phrase(
    "The carrier does not deliver to {province}: choose another carrier.",
    "该快递公司不派送至{province}：请更换快递公司。",
)


class AreaKind(Enum):
    """How the list of provinces is meant."""

    ALL = "all"
    ONLY = "only"
    EXCEPT = "except"


class ServiceArea(msgspec.Struct, frozen=True):
    """The provinces a carrier serves."""

    kind: AreaKind = AreaKind.ALL
    provinces: tuple[str, ...] = ()

    def serves(self, province: str) -> bool:
        if self.kind is AreaKind.ALL:
            return True
        is_listed = _key(province) in {_key(each) for each in self.provinces}
        return is_listed is (self.kind is AreaKind.ONLY)

    def refusal(self, province: str, language: str) -> str | None:
        """Why nothing can be sent to a province; None if it can."""
        if self.serves(province):
            return None
        return _NOT_SERVED.fill(language, {"province": province})


def _key(province: str) -> str:
    """The same for 广东 and 广东省, and for 新疆 and 新疆维吾尔自治区.

    The first two characters differ for all provinces; names in other scripts are compared whole.
    """
    name = province.strip()
    return name.casefold() if name.isascii() else name[:2]


_CODE = re.compile(r"[A-Za-z0-9_-]{1,32}")
_NAME_MAX = 40


class Carrier(msgspec.Struct, frozen=True):
    """One carrier; `wp_code` is what callers name it by."""

    wp_code: str
    name: str
    number_format: str
    area: ServiceArea


_COLUMNS = ("wp_code", "name", "number_format", "area_kind", "area_provinces")
CARRIER_COLUMNS = tuple(carrier.c[name] for name in _COLUMNS)
_SELECT = select(*CARRIER_COLUMNS)
_FIND = Query(lambda: _SELECT.where(carrier.c.wp_code == bindparam("wanted")))
_ALL = Query(lambda: _SELECT.order_by(carrier.c.wp_code))
_PUT = upsert(carrier)


@transactional
async def add_carrier(
    transaction: Transaction,
    wp_code: str,
    name: str,
    number_format: str | None = None,
    area: ServiceArea | None = None,
    runtime: Runtime = UNATTENDED,
) -> Carrier:
    """Adds a carrier, or changes it; a well-known one needs no format. Codes are in capitals."""
    wp_code = wp_code.upper()
    if not _CODE.fullmatch(wp_code):
        raise CarrierError("A carrier's code has 1 to 32 letters, digits, _ and -.", code=wp_code)
    if not name.strip() or len(name) > _NAME_MAX or not name.isprintable():
        raise CarrierError(
            "A carrier's name has 1 to {most} printable characters.", most=_NAME_MAX, name=name
        )
    number_format = number_format or KNOWN_FORMATS.get(wp_code)
    if number_format is None:
        raise CarrierError(
            "The numbers of {wp_code} are not known here: say what they look like with "
            r"--format, such as '{wp_code}\d{{12}}' for {wp_code} and twelve digits.",
            wp_code=wp_code,
            format=number_format,
        )
    check_format(number_format)
    _check_provinces(area or ServiceArea())
    added = Carrier(wp_code, name, number_format, area or ServiceArea())
    await lock_carrier(transaction, wp_code)
    before = await find_carrier(transaction, wp_code)
    await transaction.execute(
        _PUT,
        wp_code=added.wp_code,
        name=added.name,
        number_format=added.number_format,
        area_kind=added.area.kind.value,
        area_provinces=msgspec.json.encode(added.area.provinces).decode(),
    )
    subject = f"carrier {wp_code}"
    await record_act(transaction, runtime, "carrier add", subject, before=before, after=added)
    return added


async def lock_carrier(transaction: Transaction, wp_code: str) -> None:
    """Lets one operator at a time change a carrier, so that `before` in the trail is right."""
    await transaction.lock_names([f"carrier {wp_code}"])


def _check_provinces(area: ServiceArea) -> None:
    """Refuses a misspelled province, which would never match any parcel."""
    known = {_key(each) for each in listed_provinces()}
    for each in area.provinces:
        if _key(each) not in known:
            raise CarrierError(
                "There is no province {province}: write it in Chinese, such as 广东 or 广东省.",
                province=each,
            )


async def find_carrier(reader: Reader, wp_code: str) -> Carrier | None:
    row = await reader.fetch_one(_FIND, wanted=wp_code)
    return None if row is None else carrier_of(row)


async def known_carrier(reader: Reader, wp_code: str) -> Carrier:
    """The carrier with this code, for an operator's command that names it."""
    found = await find_carrier(reader, wp_code)
    if found is None:
        raise CarrierError(
            "There is no carrier {wp_code}: `tollway carrier list` shows them all.", wp_code=wp_code
        )
    return found


async def list_carriers(reader: Reader) -> Sequence[Carrier]:
    return [carrier_of(row) for row in await reader.fetch_all(_ALL)]


def carrier_of(row: Row) -> Carrier:
    wp_code, name, number_format, kind, provinces = row
    listed = msgspec.json.decode(provinces, type=tuple[str, ...])
    return Carrier(wp_code, name, number_format, ServiceArea(AreaKind(kind), listed))
