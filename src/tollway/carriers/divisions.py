"""Whether a province, a city and a district exist, so that no waybill is sold for a place that
cannot be delivered to.

`divisions.txt` lists them. The usual short forms are recognised by their beginning: 广东, 深圳,
黔南州. Names that people use but no list has (towns, streets, development zones) are doubtful, and
so is a district that now belongs to another city: such a waybill is issued, and its receipt has a
warning.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

_LIST = Path(__file__).with_name("divisions.txt")
# The longest first: only one is removed.
_ENDINGS = ("自治区", "自治州", "自治县", "自治旗", "地区", "林区", *"省市区县旗州盟")
# What may follow the short name of a province, without 族: it is added or left out at will.
_OF_A_PROVINCE = {"", *"省市区", "自治区", "壮自治区", "回自治区", "维吾尔自治区", "特别行政区"}
# Stand for all of a city or province.
_NO_NAMES = {
    *("市辖区", "县", "城区", "郊县", "直辖", "省直辖县级行政区划", "自治区直辖县级行政区划"),
    *("省直辖县级行政单位", "自治区直辖县级行政单位", "省直辖", "省直辖行政单位"),
}
_USED_BY_PEOPLE = (
    *("镇", "乡", "街道", "街", "苏木", "办事处", "团", "兵团", "农场", "林场", "牧场", "新城"),
    *("新区", "开发区", "经开区", "经开", "高新区", "高新", "园区", "工业园", "产业园", "示范区"),
    *("管理区", "保税区", "度假区", "景区", "风景区", "名胜区", "旅游区", "合作区", "试验区"),
    *("实验区", "功能区", "港区", "港务区", "投资区", "聚集区", "集聚区", "片区", "管委会"),
    *("全境", "全区", "其他", "其它", "其他区", "其它区"),
)
# The list is too incomplete here to say that something does not exist.
_NOT_LISTED_WHOLLY = ("台湾省", "香港特别行政区", "澳门特别行政区")
_PARTS = ("province", "city", "town")
_Cities = Mapping[str, tuple[str, ...]]


class PlaceCheck(NamedTuple):
    """Which of province, city and town does not exist, if any, and which are doubtful."""

    wrong: str | None
    doubtful: tuple[str, ...] = ()


# There are some three thousand districts, and most parcels go to the same few hundred.
@lru_cache(maxsize=8192)
def find_place(province: str, city: str, town: str) -> PlaceCheck:
    name = _province_named(province)
    if name is None:
        return PlaceCheck("province")
    cities = _divisions()[name]
    # A city without districts counts as a district itself, often sent as one of a nearby city.
    everywhere = tuple(each for of, districts in cities.items() for each in districts or (of,))
    city = _without(province, city)
    town = _without(city, _without(province, town))
    districts, is_sure = _districts_of(city, cities, everywhere)
    if districts is None:
        return PlaceCheck(None, _PARTS[1:]) if name in _NOT_LISTED_WHOLLY else PlaceCheck("city")
    doubtful = () if is_sure else ("city",)
    if town in _NO_NAMES or town == city or _named(town, districts):
        return PlaceCheck(None, doubtful)
    if name in _NOT_LISTED_WHOLLY or not _has_districts(districts) or _is_usable(town, everywhere):
        return PlaceCheck(None, (*doubtful, "town"))
    return PlaceCheck("town", doubtful)


class ListedPlace(NamedTuple):
    """A place by the names of the list, as far as it has them."""

    province: str
    city: str
    town: str


@lru_cache(maxsize=4096)
def listed_place(province: str, city: str, town: str) -> ListedPlace:
    """The same for all spellings of a place; a county that was sent as the city is a district."""
    name = _province_named(province)
    if name is None:
        return ListedPlace(province, city, town)
    cities = _divisions()[name]
    city = _without(province, city)
    town = _without(city, _without(province, town))
    found = _named(city, cities)
    if found is not None:
        return ListedPlace(name, found, _named(town, cities[found]) or town)
    for each, districts in cities.items():
        district = _named(town if city in _NO_NAMES else city, districts)
        if district is not None:
            return ListedPlace(name, each, district)
    return ListedPlace(name, city, town)


def listed_provinces() -> tuple[str, ...]:
    """Every province of the list, by its whole name."""
    return tuple(_divisions())


def listed_districts() -> Iterator[ListedPlace]:
    """Every district of the list."""
    for province, cities in _divisions().items():
        for city, districts in cities.items():
            for district in districts:
                yield ListedPlace(province, city, district)


def _without(whole: str, part: str) -> str:
    """A name without the name of the place that contains it, as in 广东省深圳市. But 吉林市 in 吉林
    stays."""
    rest = part.removeprefix(whole)
    return rest if len(rest) > 1 else part


def _province_named(text: str) -> str | None:
    for name in _divisions():
        short = name[: 3 if name.startswith(("内蒙古", "黑龙江")) else 2]
        if text.startswith(short) and text[len(short) :].replace("族", "") in _OF_A_PROVINCE:
            return name
    return None


def _districts_of(
    city: str, cities: _Cities, everywhere: tuple[str, ...]
) -> tuple[tuple[str, ...] | None, bool]:
    """The districts that a city may have, and whether it is listed; None if it does not exist."""
    if city in _NO_NAMES:
        return (*everywhere, *cities), True
    name = _named(city, cities)
    if name is not None:
        return cities[name], True
    # A county or a development zone is often sent as the city; its parts are not listed.
    if _named(city, everywhere) is not None:
        return (), True
    return ((), False) if city.endswith(_USED_BY_PEOPLE) else (None, False)


def _named(text: str, names: Iterable[str]) -> str | None:
    """The name that a text spells out or abbreviates."""
    core = text
    for ending in _ENDINGS:
        if text.endswith(ending):
            core = text.removesuffix(ending)
            break
    core = core if len(core) > 1 else text
    if len(core) < 2:
        return None
    found = [name for name in names if name.startswith(core)]
    return text if text in found else next(iter(found), None)


def _has_districts(names: Iterable[str]) -> bool:
    return any(name.endswith(("区", "县", "市", "旗")) for name in names)


def _is_usable(town: str, everywhere: tuple[str, ...]) -> bool:
    return town.endswith(_USED_BY_PEOPLE) or _named(town, everywhere) is not None


@cache
def _divisions() -> Mapping[str, _Cities]:
    """The districts by city by province."""
    provinces: dict[str, dict[str, tuple[str, ...]]] = {}
    cities: dict[str, tuple[str, ...]] = {}
    for line in _LIST.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        if not line.startswith(" "):
            cities = provinces[line] = {}
            continue
        city, _, districts = line.strip().partition(":")
        cities[city] = tuple(districts.split())
    return provinces
