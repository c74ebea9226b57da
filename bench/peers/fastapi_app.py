"""FastAPI with SQLAlchemy's ORM, on SQLite or PostgreSQL, as the documentation of both teaches:
sync functions, a session for each request, models in and models out, a page by OFFSET and count().

Leaves out: records are not sealed and not masked when they are read, limits are counted in whole
seconds, there are no idempotency keys and no receipts, waybill labels are not signed, and addresses
are not checked.
"""

import hashlib
import json
import os
import time
import uuid
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Form, Header, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from sqlalchemy import case, create_engine, delete, event, func, select, update
from sqlalchemy.orm import Session

from bench.peers.fastapi_models import (
    Account,
    Claim,
    ClaimOut,
    Consent,
    Entry,
    Material,
    Number,
    Order,
    OrderOut,
    Product,
    ProductDay,
    Token,
    Waybill,
)

URL = os.environ["BENCH_DATABASE"]
IS_SQLITE = URL.startswith("sqlite")
WAYBILL_FORM = os.environ["BENCH_WAYBILL"]
engine = create_engine(
    URL,
    # As many as there are threads.
    pool_size=40,
    connect_args={"timeout": 60, "check_same_thread": False} if IS_SQLITE else {},
)
app = FastAPI()


if IS_SQLITE:

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")


class RefusedError(Exception):
    """A call that is not answered with data."""

    def __init__(self, status: int, code: int, msg: str) -> None:
        super().__init__(msg)
        self.status, self.code, self.msg = status, code, msg


@app.exception_handler(RefusedError)
def refused(_: Request, error: RefusedError) -> JSONResponse:
    return JSONResponse(envelope({}, error.code, error.msg), error.status)


def envelope(data: Any, code: int = 0, msg: str = "Success") -> dict[str, Any]:
    return {"code": code, "msg": msg, "msec": 0, "time": int(time.time()), "data": data}


def get_session() -> Iterator[Session]:
    with Session(engine) as session:
        yield session


SessionDep = Annotated[Session, Depends(get_session)]


def find_account(session: Session, authorization: str) -> Account:
    """Not a dependency: that would hold a connection while it waits for a thread, and with more
    calls at once than threads all of them would wait for each other."""
    hashed = hashlib.sha256(authorization.removeprefix("Bearer ").encode()).hexdigest()
    token = session.get(Token, hashed)
    if token is None:
        raise RefusedError(401, 401, "Credential invalid.")
    return token.account


Authorization = Annotated[str, Header()]


def charge(session: Session, account: Account, operation: str, price: int) -> None:
    """Counts the call against the limit, takes its price and notes it down."""
    now_s, account_id = int(time.time()), account.id
    unit = Account.calls if operation == "product_analysis" else Account.credits
    if getattr(account, unit.key) < price:
        raise RefusedError(402, 204, "Insufficient number of calls or credits.")
    if account.window_s >= now_s and account.window_calls >= account.calls_a_second:
        raise RefusedError(429, 202, "Too many requests: retry later.")
    # What was read is older than what this transaction may write.
    session.rollback()
    # A call that waited for another one's commit may come with an earlier second.
    is_same = Account.window_s >= now_s
    used = case((is_same, Account.window_calls + 1), else_=1)
    window_s = case((is_same, Account.window_s), else_=now_s)
    taken = session.execute(
        update(Account)
        .where(Account.id == account_id, unit >= price, used <= Account.calls_a_second)
        .values({unit.key: unit - price, "window_calls": used, "window_s": window_s}),
        execution_options={"synchronize_session": False},
    )
    if taken.rowcount != 1:
        session.rollback()
        raise RefusedError(429, 202, "Too many requests: retry later.")
    session.add(
        Entry(
            id=uuid.uuid4().hex,
            account_id=account_id,
            operation=operation,
            amount=-price,
            made_at_s=now_s,
        )
    )


def check_consent(session: Session, account: Account, owner_id: str) -> None:
    if session.get(Consent, (account.id, owner_id)) is None:
        raise RefusedError(403, 302, "Not authorized.")


class Series(BaseModel):
    paymentConversionRate: list[float]
    date: list[str]
    paymentAmount: list[float]
    paidNum: list[int]
    visitorNum: list[int]


@app.get("/papi/tool/accounts/goods-analysis")
def product_analysis(
    session: SessionDep, product_id: str, query_date: str, authorization: Authorization = ""
) -> dict[str, Any]:
    account = find_account(session, authorization)
    charge(session, account, "product_analysis", 1)
    product = session.get(Product, (product_id, query_date))
    if product is None:
        raise RefusedError(400, 100, "Parameter error.")
    query = (
        select(ProductDay)
        .where(ProductDay.product_id == product_id, ProductDay.date <= query_date)
        .order_by(ProductDay.date.desc())
        .limit(30)
    )
    days = session.scalars(query).all()[::-1]
    names = Series.model_fields
    series = Series(**{name: [getattr(day, name) for day in days] for name in names})
    data = {**product.parts, "dateData": {"data": series}}
    session.commit()
    return envelope(data)


class OrdersIn(BaseModel):
    owner_id: str
    page: int = 0
    pageSize: int = 100


@app.post("/papi/tool/erps/paging-orders")
def orders(
    session: SessionDep, asked: Annotated[OrdersIn, Form()], authorization: Authorization = ""
) -> dict[str, Any]:
    account = find_account(session, authorization)
    check_consent(session, account, asked.owner_id)
    charge(session, account, "orders", 1)
    of_owner = Order.owner_id == asked.owner_id
    total = session.scalar(select(func.count()).select_from(Order).where(of_owner))
    query = (
        select(Order)
        .where(of_owner)
        .order_by(Order.confirm_time.desc(), Order.order_sn)
        .offset(asked.page * asked.pageSize)
        .limit(asked.pageSize)
    )
    data = {
        "content": [OrderOut.model_validate(each) for each in session.scalars(query)],
        "page": asked.page,
        "pageSize": asked.pageSize,
        "page_size": asked.pageSize,
        "totalElements": total,
        "total_elements": total,
        "withholding_money": 1,
    }
    session.commit()
    return envelope(data)


class ClaimsIn(BaseModel):
    startTime: int
    endTime: int
    page: int
    limit: int
    sid: str
    type: int


@app.post("/papi/tool/waimai/partner_couponList")
def claims(
    session: SessionDep, asked: Annotated[ClaimsIn, Form()], authorization: Authorization = ""
) -> dict[str, Any]:
    account = find_account(session, authorization)
    charge(session, account, "coupon_claims", 1)
    in_window = (
        (Claim.sid == asked.sid)
        & (Claim.type == asked.type)
        & Claim.claimed_at_s.between(asked.startTime, asked.endTime - 1)
    )
    query = (
        select(Claim)
        .where(in_window)
        .order_by(Claim.claimed_at_s.desc(), Claim.couponCode)
        .offset((asked.page - 1) * asked.limit)
        .limit(asked.limit)
    )
    data = {
        "total": session.scalar(select(func.count()).select_from(Claim).where(in_window)),
        "dataList": [ClaimOut.model_validate(each) for each in session.scalars(query)],
        "withholding_money": 1,
    }
    session.commit()
    return envelope(data)


class MaterialsIn(BaseModel):
    adzone_id: int
    promotion_id: int
    site_id: int
    platform_user_id: int
    page_size: int = 10
    page_num: int = 1


@app.post("/papi/tool/affiliate/promotion")
def materials(
    session: SessionDep, asked: MaterialsIn, authorization: Authorization = ""
) -> dict[str, Any]:
    account = find_account(session, authorization)
    check_consent(session, account, str(asked.platform_user_id))
    charge(session, account, "promotion_material", 1)
    query = (
        select(Material)
        .where(Material.promotion_id == asked.promotion_id)
        .order_by(Material.position)
        .offset((asked.page_num - 1) * asked.page_size)
        .limit(asked.page_size)
    )
    slot = f"mm_{asked.platform_user_id}_{asked.site_id}_{asked.adzone_id}"
    listed = [_with_slot(each.content, slot) for each in session.scalars(query)]
    session.commit()
    result = {"result_list": {"map_data": listed}}
    return envelope({"withholding_money": 1, "affiliate_sc_optimus_promotion_response": result})


def _with_slot(content: Any, slot: str) -> Any:
    if isinstance(content, dict):
        return {name: _with_slot(each, slot) for name, each in content.items()}
    if isinstance(content, list):
        return [_with_slot(each, slot) for each in content]
    return content.replace("@slot@", slot) if isinstance(content, str) else content


class WaybillIn(BaseModel):
    owner_id: str
    order_sn: str
    wp_code: str
    sender_name: str
    sender_mobile: str
    sender_province: str
    sender_city: str
    sender_town: str
    sender_detail: str
    waybill_type: int
    receiver_province: str
    receiver_city: str
    receiver_town: str
    receiver_address: str
    receiver_phone: str
    receiver_name: str


@app.post("/papi/tool/erps/getwaybillfreewn")
def waybills(
    session: SessionDep, asked: WaybillIn, authorization: Authorization = ""
) -> dict[str, Any]:
    account = find_account(session, authorization)
    check_consent(session, account, asked.owner_id)
    key = (account.id, asked.owner_id, asked.order_sn, asked.wp_code)
    issued = session.get(Waybill, key)
    if issued is None:
        charge(session, account, "waybills", 10)
        taken = (
            select(Number.number)
            .where(Number.wp_code == asked.wp_code)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        number = session.execute(
            delete(Number).where(Number.number == taken.scalar_subquery()).returning(Number.number),
            execution_options={"synchronize_session": False},
        ).scalar_one()
        names = ("account_id", "owner_id", "order_sn", "wp_code")
        issued = Waybill(**dict(zip(names, key, strict=True)), number=number)
        session.add(issued)
    form = WAYBILL_FORM.replace("@order@", asked.order_sn).replace("@number@", issued.number)
    session.commit()
    return envelope(json.loads(form.replace("@object@", f"wb_{uuid.uuid4().hex[:23]}")))
