"""Routing tables: the sorting codes of a carrier by the receiver's place, for waybills whose
carrier does not send them itself.

A row is for a district, for all of a city or for all of a province; the narrowest one counts.
Places are stored by the names of the list in `divisions.py`, so that every spelling finds its row.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import msgspec
from sqlalchemy import bindparam, func, select

from tollway.carriers.carriers import known_carrier
from tollway.carriers.divisions import ListedPlace, find_place, listed_place
from tollway.carriers.labels.print_data import (
    PLACE_NAME_MAX,
    SORTING_CODE_MAX,
    Address,
    Place,
    RoutingInfo,
    route,
)
from tollway.contract.language import Sentence, SentenceError
from tollway.ledger.runtime import UNATTENDED, Runtime
from tollway.ledger.trail import record_act
from tollway.store.database import Database, Reader, Transaction
from tollway.store.many_rows import upserts
from tollway.store.query import Query, of_many
from tollway.store.schema.carriers import carrier_route

_LENGTHS_MAX = {
    "route_code": SORTING_CODE_MAX,
    "consolidation": PLACE_NAME_MAX,
    "consolidation_code": SORTING_CODE_MAX,
}
# The columns of a file, and what Chinese spreadsheets call them.
COLUMNS = {
    "province": ("省", "省份"),
    "city": ("市", "城市"),
    "district": ("区县", "区", "县"),
    "route_code": ("三段码",),
    "consolidation": ("集包地",),
    "consolidation_code": ("集包码", "集包编码"),
}
_BY_NAME = {name: column for column, also in COLUMNS.items() for name in (column, *also)}


class RouteError(SentenceError):
    """A row of a routing table that cannot be used; the text says why."""


class Route(msgspec.Struct, frozen=True):
    """What the sorters of a carrier read on parcels for one place."""

    province: str
    city: str
    district: str
    route_code: str
    consolidation: str
    consolidation_code: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.province, self.city, self.district

    def has(self, text: str) -> bool:
        """Whether a search finds it: by words of the place, also written as one, or of the codes,
        each as far as it was typed."""
        named = (*self.key, self.route_code, self.consolidation, self.consolidation_code)
        searched = "\n".join(("".join(self.key), *named)).lower()
        return all(word in searched for word in text.lower().split())


class RoutesChange(msgspec.Struct, frozen=True):
    """How many rows a carrier's table was given, and how many it has now."""

    wp_code: str
    stored: int
    in_all: int


_route_columns = tuple(carrier_route.c)[1:]
_place = carrier_route.c
_of_carrier = _place.wp_code == bindparam("of_carrier")
_ALL = Query(
    lambda: (
        select(*_route_columns)
        .where(_of_carrier)
        .order_by(_place.province, _place.city, _place.district)
    )
)
_FIND = of_many(
    "SELECT {all}({one}(wp_code, province, city, district, route_code, hub_name, hub_code)) "
    "FROM {wanted} CROSS JOIN carrier_route WHERE wp_code = value ->> 0 "
    "AND province = value ->> 1 AND city = value ->> 2 AND district = value ->> 3"
)
_COUNT = Query(lambda: select(func.count()).select_from(carrier_route).where(_of_carrier))
_CLEAR = Query(lambda: carrier_route.delete().where(_of_carrier))


def read_route(values: Mapping[str, object]) -> Route:
    """One row of a file."""
    cells = {
        _BY_NAME[name]: str(value).strip() for name, value in values.items() if name in _BY_NAME
    }
    for needed in ("province", "route_code"):
        if not cells.get(needed):
            raise RouteError("{column} is missing", column=needed)
    for name, most in _LENGTHS_MAX.items():
        text = cells.get(name, "")
        if len(text) > most or not text.isprintable():
            raise RouteError(
                "{column} is longer than {most} characters, or not printable",
                column=name,
                most=most,
            )
    place = _listed(cells["province"], cells.get("city", ""), cells.get("district", ""))
    return Route(*place, *(cells.get(name, "") for name in _LENGTHS_MAX))


def _listed(province: str, city: str, district: str) -> ListedPlace:
    if district and not city:
        raise RouteError("a district is named, but no city")
    # A missing part stands for all: the check replaces it by a name that always passes.
    wrong = find_place(province, city or "市辖区", district or "市辖区").wrong
    if wrong is not None:
        place_kind = "district" if wrong == "town" else wrong
        raise RouteError("there is no such {place_kind}", place_kind=Sentence(place_kind))
    place = listed_place(province, city or "市辖区", district or "市辖区")
    return ListedPlace(place.province, place.city if city else "", place.town if district else "")


async def put_routes(
    database: Database,
    wp_code: str,
    routes: Iterable[Route],
    *,
    replace: bool = False,
    runtime: Runtime = UNATTENDED,
) -> RoutesChange:
    """Adds rows to a carrier's table; they replace the rows for the same places, or all rows."""
    rows = {each.key: each for each in routes}

    async def work(transaction: Transaction) -> RoutesChange:
        await known_carrier(transaction, wp_code)
        if replace:
            await transaction.execute(_CLEAR, of_carrier=wp_code)
        values = [(wp_code, *msgspec.structs.astuple(each)) for each in rows.values()]
        await transaction.put_rows(upserts(carrier_route), values)
        ((in_all,),) = await transaction.fetch_all(_COUNT, of_carrier=wp_code)
        change = RoutesChange(wp_code, len(rows), int(in_all))
        act, subject = "carrier routes", f"carrier {wp_code}"
        await record_act(transaction, runtime, act, subject, after=change)
        return change

    return await database.write(work)


async def list_routes(reader: Reader, wp_code: str) -> list[Route]:
    return [Route(*row) for row in await reader.fetch_all(_ALL, of_carrier=wp_code)]


async def find_routing(
    reader: Reader, wp_code: str, sender: Address, recipient: Address
) -> RoutingInfo:
    """The routing on a label: from the carrier's table, or else from the names of the places."""
    (found,) = await find_routings(reader, [(wp_code, sender, recipient)])
    return found


async def find_routings(
    reader: Reader, wanted: Sequence[tuple[str, Address, Address]]
) -> list[RoutingInfo]:
    """The same for many labels, each with its carrier, sender and recipient."""
    keys = [_keys(wp_code, recipient) for wp_code, _, recipient in wanted]
    asked = msgspec.json.encode(list(set(chain.from_iterable(keys)))).decode()
    ((found,),) = await reader.fetch_all(_FIND, wanted=asked)
    rows: list[list[str]] = msgspec.json.decode(found or "[]")
    routes = {tuple(row[:4]): Route(*row[1:]) for row in rows}
    return [
        _routing(route(sender, recipient), next(filter(None, map(routes.get, of)), None))
        for of, (_, sender, recipient) in zip(keys, wanted, strict=True)
    ]


def _keys(wp_code: str, recipient: Address) -> tuple[tuple[str, ...], ...]:
    """The rows that a place may have, the narrowest first."""
    province, city, town = listed_place(recipient.province, recipient.city, recipient.district)
    of_province = (wp_code, province)
    return (*of_province, city, town), (*of_province, city, ""), (*of_province, "", "")


def _routing(named: RoutingInfo, found: Route | None) -> RoutingInfo:
    if found is None:
        return named
    hub = found.consolidation or named.consolidation.name
    return msgspec.structs.replace(
        named, consolidation=Place(hub, found.consolidation_code), route_code=found.route_code
    )
