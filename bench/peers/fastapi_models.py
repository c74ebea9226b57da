"""The tables and answers of the FastAPI peer."""

from typing import Any, ClassVar

from pydantic import BaseModel
from sqlalchemy import JSON, BigInteger, ForeignKey, Index, String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class Base(DeclarativeBase):
    type_annotation_map: ClassVar = {int: BigInteger, dict[str, Any]: JSON, list[Any]: JSON}


class Account(Base):
    __tablename__ = "account"
    id: Mapped[str] = mapped_column(primary_key=True)
    calls_a_second: Mapped[int]
    window_s: Mapped[int] = mapped_column(default=0)
    window_calls: Mapped[int] = mapped_column(default=0)
    calls: Mapped[int]
    credits: Mapped[int]


class Token(Base):
    __tablename__ = "token"
    hash: Mapped[str] = mapped_column(primary_key=True)
    account_id: Mapped[str] = mapped_column(ForeignKey("account.id"))
    account: Mapped[Account] = relationship()


class Consent(Base):
    __tablename__ = "consent"
    account_id: Mapped[str] = mapped_column(primary_key=True)
    owner_id: Mapped[str] = mapped_column(primary_key=True)


class Entry(Base):
    __tablename__ = "entry"
    id: Mapped[str] = mapped_column(primary_key=True)
    account_id: Mapped[str]
    operation: Mapped[str]
    amount: Mapped[int]
    made_at_s: Mapped[int]


class Product(Base):
    __tablename__ = "product"
    product_id: Mapped[str] = mapped_column(primary_key=True)
    day: Mapped[str] = mapped_column(primary_key=True)
    parts: Mapped[dict[str, Any]]


class ProductDay(Base):
    __tablename__ = "product_day"
    product_id: Mapped[str] = mapped_column(primary_key=True)
    date: Mapped[str] = mapped_column(primary_key=True)
    paymentConversionRate: Mapped[float]
    paymentAmount: Mapped[float]
    paidNum: Mapped[int]
    visitorNum: Mapped[int]


class OrderOut(BaseModel):
    """One order of an answer."""

    model_config = {"from_attributes": True}

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


class Order(Base):
    __tablename__ = "shop_order"
    owner_id: Mapped[str] = mapped_column(primary_key=True)
    order_sn: Mapped[str] = mapped_column(primary_key=True)
    receiver_name: Mapped[str]
    receiver_phone: Mapped[str]
    province: Mapped[str]
    city: Mapped[str]
    town: Mapped[str]
    receiver_address: Mapped[str]
    address: Mapped[str]
    goods_name: Mapped[str]
    goods_img: Mapped[str]
    goods_spec: Mapped[str]
    is_pre_sale: Mapped[bool]
    last_ship_time: Mapped[int]
    confirm_time: Mapped[int] = mapped_column()
    remark: Mapped[str]
    goods_count: Mapped[int]
    pay_amount: Mapped[float]
    order_status: Mapped[int]
    remark_tag: Mapped[str | None]
    remark_tag_name: Mapped[str | None]
    withholding_money: Mapped[int]
    __table_args__ = (Index("shop_order_page", "owner_id", confirm_time.desc(), "order_sn"),)


class ClaimOut(BaseModel):
    """One claim of an answer."""

    model_config = {"from_attributes": True}

    couponTime: str
    money: str
    minUseMoney: str
    couponName: str
    couponType: str
    couponCode: str
    beginTime: str
    endTime: str
    appKey: str
    sid: str


class Claim(Base):
    __tablename__ = "claim"
    couponCode: Mapped[str] = mapped_column(primary_key=True)
    type: Mapped[int]
    claimed_at_s: Mapped[int] = mapped_column()
    couponTime: Mapped[str]
    money: Mapped[str]
    minUseMoney: Mapped[str]
    couponName: Mapped[str]
    couponType: Mapped[str]
    beginTime: Mapped[str]
    endTime: Mapped[str]
    appKey: Mapped[str]
    sid: Mapped[str]
    __table_args__ = (Index("claim_page", "sid", "type", claimed_at_s.desc(), "couponCode"),)


class Material(Base):
    __tablename__ = "material"
    promotion_id: Mapped[int] = mapped_column(primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    content: Mapped[dict[str, Any]]


class Number(Base):
    __tablename__ = "number"
    number: Mapped[str] = mapped_column(primary_key=True)
    wp_code: Mapped[str] = mapped_column(index=True)


class Waybill(Base):
    __tablename__ = "waybill"
    account_id: Mapped[str] = mapped_column(primary_key=True)
    owner_id: Mapped[str] = mapped_column(primary_key=True)
    order_sn: Mapped[str] = mapped_column(String(64), primary_key=True)
    wp_code: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[str]
