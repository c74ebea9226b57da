"""Made-up carriers with their numbers and routing tables: all formats, one that does not serve
everywhere, one that is out of numbers. The sandbox has the same ones, and draws numbers of its
own."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import NamedTuple

from tollway.carriers.carriers import AreaKind, ServiceArea, add_carrier
from tollway.carriers.divisions import listed_districts
from tollway.carriers.number_formats import S10, SANDBOX_PREFIX, s10_check_digit
from tollway.carriers.pools import SHARED, Taken, Wanted, add_numbers
from tollway.carriers.sorting_codes import Route, put_routes
from tollway.operations.demo_data import DemoTarget
from tollway.store.database import Database, Transaction

WP_CODE = "YTO"
WP_CODE_OUT_OF_NUMBERS = "DBKD"


class _DemoCarrier(NamedTuple):
    wp_code: str
    name: str
    number: Callable[[int], str]
    number_format: str | None = None
    not_served: tuple[str, ...] = ()


def _s10(position: int) -> str:
    serial = f"{position:08d}"
    return f"RB{serial}{s10_check_digit(serial)}CN"


_CARRIERS = (
    _DemoCarrier("YTO", "圆通速递", lambda n: f"YT{8_800_000_000_000 + n}"),
    _DemoCarrier("ZTO", "中通快递", lambda n: f"73{100_000_000_000 + n}"),
    _DemoCarrier("STO", "申通快递", lambda n: f"77{3_000_000_000_000 + n}"),
    _DemoCarrier("YUNDA", "韵达快递", lambda n: f"4{31_000_000_000_000 + n}"),
    _DemoCarrier(
        "JTSD", "极兔速递", lambda n: f"JT{5_100_000_000_000 + n}", not_served=("西藏", "新疆")
    ),
    _DemoCarrier("SF", "顺丰速运", lambda n: f"SF1{400_000_000_000 + n}"),
    _DemoCarrier("EMS", "中国邮政 EMS", lambda n: f"1{200_000_000_000 + n}"),
    _DemoCarrier("POSTB", "邮政快递包裹", lambda n: f"98{61_000_000_000 + n}"),
    _DemoCarrier("JD", "京东快递", lambda n: f"JDVA{20_000_000_000 + n}"),
    _DemoCarrier("CNPOST", "中国邮政国际小包", _s10, S10),
)


# How many numbers each carrier has.
WORLD = 2000
_SANDBOX_DIGITS = 12


async def fill(target: DemoTarget) -> None:
    if target.made_days_ago is None:
        numbers = 0 if target.is_sandbox else WORLD
        await fill_carriers(target.database, numbers=numbers, has_districts=not target.is_sandbox)


async def fill_carriers(database: Database, *, numbers: int, has_districts: bool = False) -> None:
    """Adds the carriers, each with so many numbers; existing ones stay. Their routing tables are by
    district or by city."""
    for position, each in enumerate(_CARRIERS):
        kind = AreaKind.EXCEPT if each.not_served else AreaKind.ALL
        area = ServiceArea(kind, each.not_served)
        await add_carrier(database, each.wp_code, each.name, each.number_format, area)
        texts = map(each.number, range(numbers))
        await add_numbers(database, each.wp_code, SHARED, texts, lambda _: None)
        await put_routes(database, each.wp_code, _routes(position, has_districts=has_districts))
    await add_carrier(database, WP_CODE_OUT_OF_NUMBERS, "德邦快递")


# The area codes of large cities, which carriers' codes often begin with. Other cities are numbered.
_AREA_CODES = """
北京市 010 上海市 021 天津市 022 重庆市 023 广州市 020 深圳市 755 杭州市 571 南京市 025 苏州市 512
宁波市 574 成都市 028 武汉市 027 西安市 029 长沙市 731 郑州市 371 青岛市 532 济南市 531 厦门市 592
福州市 591 合肥市 551 东莞市 769 佛山市 757 沈阳市 024 大连市 411 昆明市 871
""".split()  # noqa: SIM905 - a table of fifty quoted strings would be no clearer
_COURIERS = 24


class _City(NamedTuple):
    province: str
    name: str
    districts: tuple[str, ...]
    code: str


@cache
def _cities() -> tuple[_City, ...]:
    known = dict(zip(_AREA_CODES[::2], _AREA_CODES[1::2], strict=True))
    numbers = (str(number) for number in range(300, 1000) if str(number) not in known.values())
    return tuple(
        _City(province, name, tuple(each.town for each in places), known.get(name) or next(numbers))
        for (province, name), places in groupby(listed_districts(), key=lambda each: each[:2])
    )


def _routes(position: int, *, has_districts: bool) -> Iterator[Route]:
    """A routing table that differs from carrier to carrier, and is the same in every world."""
    letter = chr(ord("A") + position)
    for city in _cities():
        districts = city.districts if has_districts else ("",)
        for branch, district in enumerate(districts, 1):
            courier = (branch * 7 + position * 5) % _COURIERS + 1
            code = f"{city.code}-{letter}{branch:02d}-{courier:02d}"
            hub, hub_code = f"{city.name.removesuffix('市')}集包", f"{city.code}{letter}"
            yield Route(city.province, city.name, district, code, hub, hub_code)


async def sandbox_numbers(_: Transaction, wanted: Sequence[Wanted]) -> list[Taken]:
    """Numbers for test waybills. They are random: no account can use up another's, and none reveals
    how many were issued."""
    return [None if wp_code == WP_CODE_OUT_OF_NUMBERS else _drawn() for wp_code, _ in wanted]


def _drawn() -> str:
    return f"{SANDBOX_PREFIX}{secrets.randbelow(10**_SANDBOX_DIGITS):0{_SANDBOX_DIGITS}d}"


def carrier_names() -> dict[str, str]:
    """Every made-up carrier by its code."""
    return {each.wp_code: each.name for each in _CARRIERS} | {WP_CODE_OUT_OF_NUMBERS: "德邦快递"}
