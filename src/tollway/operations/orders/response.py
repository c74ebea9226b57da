"""What an answer has, in the spellings of the wire. Both of them, where there are two."""

import msgspec


class OrderEntry(msgspec.Struct, frozen=True, gc=False):
    """One order."""

    receiver_name: str
    receiver_phone: str
    province: str
    city: str
    town: str
    receiver_address: str
    address: str
    order_sn: str
    goods_name: str
    goods_img: str
    goods_spec: str
    is_pre_sale: bool
    last_ship_time: int
    confirm_time: int
    remark: str
    goods_count: int
    pay_amount: float
    order_status: int
    remark_tag: str | None
    remark_tag_name: str | None
    withholding_money: int


class OrderPage(msgspec.Struct, frozen=True):
    """The payload."""

    content: list[OrderEntry]
    page: int
    pageSize: int
    page_size: int
    totalElements: int
    total_elements: int
    withholding_money: int
