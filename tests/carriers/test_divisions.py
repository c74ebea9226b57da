"""Which places exist: as people write them, and as they do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tollway.carriers.divisions import _divisions as divisions
from tollway.carriers.divisions import find_place


@pytest.mark.parametrize(
    "place",
    [
        "广东省 深圳市 南山区",
        "广东 深圳 南山",
        "广东省 深圳市 市辖区",
        "广东省 广东省深圳市 深圳市南山区",
        "北京市 市辖区 朝阳区",
        "北京 北京 朝阳",
        "重庆市 县 云阳县",
        "重庆 重庆 渝北区",
        "上海市 上海市 浦东新区",
        "吉林 吉林市 船营区",
        "广西省 南宁 青秀区",
        "新疆维吾尔族自治区 伊犁州 伊宁市",
        "内蒙古 呼和浩特 新城区",
        "贵州省 黔南州 都匀市",
        "贵州省 黔南布依族苗族自治州 三都水族自治县",
        "甘肃 临夏州 东乡县",
        "湖北省 省直辖县级行政区划 仙桃市",
        "湖北省 仙桃市 仙桃市",
        "西藏 山南地区 乃东区",
        "广东省 东莞市 虎门镇",
        # Given up since; parcels are sent there all the same.
        "浙江省 杭州市 江干区",
        "北京市 北京市 宣武区",
    ],
)
def test_a_place_is_known_in_its_usual_forms(place: str) -> None:
    assert find_place(*place.split()) == (None, ())


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        ("火星 深圳市 南山区", "province"),
        ("广 深圳市 南山区", "province"),
        ("广东火星 深圳市 南山区", "province"),
        ("Guangdong 深圳市 南山区", "province"),
        ("广东省 火星 南山区", "city"),
        ("广东省 杭州市 西湖区", "city"),
        ("广东省 深 南山区", "city"),
        ("广东省 深圳市 火星", "town"),
        ("广东省 深圳市 火星区", "town"),
        ("广东省 深圳市 西湖区", "town"),
        ("广东省 深圳市 无", "town"),
        ("广东省 深圳市 --", "town"),
    ],
)
def test_a_place_that_does_not_exist_is_named_by_its_part(place: str, wrong: str) -> None:
    assert find_place(*place.split()).wrong == wrong


@pytest.mark.parametrize(
    ("place", "doubtful"),
    [
        ("广东省 东莞市 松山湖", ("town",)),
        ("江苏省 苏州市 工业园区", ("town",)),
        ("江苏省 昆山市 玉山镇", ("town",)),
        ("广东省 深圳市 其它区", ("town",)),
        ("湖北省 神农架林区 松柏镇", ("town",)),
        ("四川省 成都市 雁江区", ("town",)),
        ("新疆 阿克苏地区 阿拉尔市", ("town",)),
        # Zones that are districts to those who live there.
        ("河南省 郑州市 郑州航空港经济综合实验区", ("town",)),
        ("福建省 福州市 平潭综合实验区", ("town",)),
        ("福建省 泉州市 台商投资区", ("town",)),
        ("陕西省 西安市 国际港务区", ("town",)),
        ("上海市 上海市 临港新片区", ("town",)),
        ("山西省 忻州市 五台山风景名胜区", ("town",)),
        ("河南省 商丘市 豫东综合物流产业聚集区", ("town",)),
        ("河南省 商丘市 豫东综合物流产业集聚区", ("town",)),
        ("河南省 郑州市 高新", ("town",)),
        ("陕西省 西安市 经开", ("town",)),
        ("江苏省 苏州市 苏州工业园", ("town",)),
        ("福建省 平潭综合实验区 潭城镇", ("city", "town")),
        ("河北省 雄安新区 容城县", ("city", "town")),
        ("香港特别行政区 九龙 油尖旺", ("city", "town")),
        ("台湾省 台北市 某地", ("town",)),
    ],
)
def test_what_no_list_has_is_doubtful_and_not_wrong(place: str, doubtful: tuple[str, ...]) -> None:
    assert find_place(*place.split()) == (None, doubtful)


def test_every_place_of_the_list_is_known_by_its_own_name() -> None:
    provinces = divisions()
    assert len(provinces) == 34
    assert sum(len(cities) for cities in provinces.values()) > 380
    unknown = [
        (province, city, district)
        for province, cities in provinces.items()
        for city, districts in cities.items()
        for district in districts or (city,)
        if find_place(province, city, district) != (None, ())
    ]
    assert not unknown


@given(st.text(), st.text(), st.text())
def test_any_text_is_found_or_not(province: str, city: str, town: str) -> None:
    assert find_place(province, city, town).wrong in (None, "province", "city", "town")
