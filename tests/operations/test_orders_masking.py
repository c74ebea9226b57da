"""What is shown of a receiver: enough to tell parcels apart, and no more."""

import pytest

from tollway.operations.orders.masking import masked_address, masked_name, masked_phone


@pytest.mark.parametrize(
    ("plain", "masked"),
    [
        ("文三路478号3幢1201室", "文三路***号***幢***室"),
        ("中山二路A座三楼", "中山二路***座***楼"),
        ("人民路１２号", "人民路***号"),
        ("绿杨村南门", "绿杨村***"),
        ("", "***"),
    ],
)
def test_addresses_keep_their_street_and_lose_their_number(plain: str, masked: str) -> None:
    assert masked_address(plain) == masked


def test_names_and_phones_are_masked() -> None:
    assert [masked_name(name) for name in ("张三", "欧阳小明", "张")] == ["张**", "欧**", "*"]
    assert masked_phone("13812341234") == "138****1234"
    assert masked_phone("87654321") == "87****21"
    assert masked_phone("12345") == "*****"
