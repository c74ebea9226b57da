"""The prepared parts of a product's day, against the figures that they are made of.

`operations/product_analysis/ready_days.py` defines the format of a part; this file does so again,
independently.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    LargeBinary,
    String,
    Table,
    bindparam,
    cast,
    func,
    null,
    select,
    tuple_,
    union_all,
)

from tollway.audit.check import BREACHES_SHOWN_MAX, Breach, CheckFigures
from tollway.operations.product_analysis.schema import product_day_parts, product_figure
from tollway.store.database import Database, Row
from tollway.store.query import Query

# How many figures to read at once, plus the rest of the last day. Comparing them blocks the event
# loop, so a gateway that runs the audit answers no calls meanwhile.
_PAGE = 1000
_KINDS = ("source", "keyword", "search")


def _key_of(table: Table) -> list[ColumnElement[Any]]:
    return [table.c.product_id, table.c.day]


def _bound(name: str) -> ColumnElement[Any]:
    return tuple_(bindparam(f"{name}_id", type_=String), bindparam(f"{name}_day", type_=Integer))


def _days(*, to_the_end: bool) -> Query:
    """The figures and the parts of the days after one day, up to another or to the end: in one
    statement, so that both come from one snapshot. The columns of parts follow those of figures."""
    figures, parts = list(product_figure.c), list(product_day_parts.c)[2:]
    halves = [
        (product_figure, [*figures, *(cast(null(), LargeBinary) for _ in parts)]),
        (
            product_day_parts,
            [
                *_key_of(product_day_parts),
                *(cast(null(), String) for _ in ("kind", "name")),
                *(cast(null(), BigInteger) for _ in figures[4:]),
                *parts,
            ],
        ),
    ]
    selects = []
    for table, columns in halves:
        key = tuple_(*_key_of(table))
        found = select(*columns).where(key > _bound("after"))
        selects.append(found if to_the_end else found.where(key <= _bound("last")))
    return Query(union_all(*selects))


_figure_key = _key_of(product_figure)
_ROWS = Query(lambda: select(func.count()).select_from(product_figure))
_LAST_OF_PAGE = Query(
    lambda: (
        select(*_figure_key)
        .where(tuple_(*_figure_key) > _bound("after"))
        .order_by(*_figure_key)
        .offset(_PAGE)
        .limit(1)
    )
)
_UP_TO, _ALL_AFTER = _days(to_the_end=False), _days(to_the_end=True)


class DayPartsCheck:
    """Whether each product's day has exactly the parts that its figures make."""

    name = "day_parts"
    holds = "the ready parts of a product's day say what its figures say"

    async def run(self, database: Database, _: int) -> tuple[CheckFigures, list[Breach]]:
        ((rows,),) = await database.fetch_long(_ROWS)
        breaches: list[Breach] = []
        after: Row | None = ("", 0)
        while after is not None and len(breaches) < BREACHES_SHOWN_MAX:
            bounds = {"after_id": after[0], "after_day": after[1]}
            last = await database.fetch_long(_LAST_OF_PAGE, **bounds)
            after = last[0] if last else None
            if after is None:
                found = await database.fetch_long(_ALL_AFTER, **bounds)
            else:
                bounds |= {"last_id": after[0], "last_day": after[1]}
                found = await database.fetch_long(_UP_TO, **bounds)
            breaches += _breaches(found)
        del breaches[BREACHES_SHOWN_MAX:]
        return CheckFigures(self.name, self.holds, rows, len(breaches)), breaches


DAY_PARTS = DayPartsCheck()


def _breaches(found: Sequence[Row]) -> Iterator[Breach]:
    figures: defaultdict[Row, list[Row]] = defaultdict(list)
    parts: dict[Row, Row] = {}
    for row in found:
        key, of_figure, of_parts = row[:2], row[2:8], row[8:]
        if of_figure[0] is None:
            parts[key] = tuple(map(bytes, of_parts))
        else:
            figures[key].append(of_figure)
    for key in sorted(figures.keys() | parts.keys()):
        subject = f"product {key[0]}, day {key[1]}"
        if key not in parts:
            what = f"{subject}: there are figures, but no parts made of them"
            yield Breach("day_parts_missing", None, None, what)
        elif key not in figures:
            what = f"{subject}: there are parts, but no figures that they are made of"
            yield Breach("day_parts_left", None, None, what)
        elif parts[key] != _answered(figures[key]):
            what = f"{subject}: its parts do not say what its figures say"
            yield Breach("day_parts_differ", None, None, what)


def _answered(figures: list[Row]) -> Row:
    entries: dict[str, list[object]] = {kind: [] for kind in _KINDS}
    for kind, *figure in sorted(figures, key=lambda row: (-row[2], row[1])):
        entries[kind].append(_entry(kind, *figure))
    return tuple(map(msgspec.json.encode, entries.values()))


def _entry(
    kind: str, name: str, visitors: int, buyers: int, pieces: int, views: int
) -> dict[str, object]:
    hundredths = (10_000 * buyers + visitors // 2) // visitors if visitors else 0
    share = max(1, hundredths) / 100
    if kind == "search":
        return {
            "pageName": name,
            "uvIndex": visitors,
            "payRateIndex": share,
            "payByrCntIndex": buyers,
        }
    entry: dict[str, object] = {
        "pageName": name,
        "payByrCntIndex": buyers,
        "crtByrCntIndex": pieces,
        "uvIndex": visitors,
        "payRateIndex": share,
    }
    return entry | {"pv": views} if kind == "keyword" else entry
