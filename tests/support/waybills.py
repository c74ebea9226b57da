"""What tests of waybills share: a carrier with numbers, a caller with credits, a request."""

from collections.abc import Iterable
from itertools import count
from typing import Any

from tests.support.gateway import Gateway, Reply, reply_of
from tests.support.ledger import Caller, new_caller
from tests.support.owners import authorize, shop
from tests.support.stores import Store
from tollway.carriers.carriers import ServiceArea, add_carrier
from tollway.carriers.pools import SHARED, Rejected, add_numbers
from tollway.demo.owners import SHOP
from tollway.operations.waybills.operation import WAYBILLS
from tollway.store.database import Database

PRICE = WAYBILLS.default_price
_numbers = count(1)
_orders = count(1)


def new_carrier(store: Store, numbers: int, area: ServiceArea | None = None) -> str:
    """A carrier of its own for one test, whose pool no other test uses."""
    wp_code = f"T{next(_numbers)}"

    async def work(database: Database) -> None:
        await add_carrier(database, wp_code, "测试快递", r"YT\d{13}", area)

    store.do(work)
    load_numbers(store, wp_code, (f"YT{n:013d}" for n in range(numbers)))
    return wp_code


def load_numbers(
    store: Store, wp_code: str, numbers: Iterable[str], owner_id: str = SHARED
) -> list[Rejected]:
    aside: list[Rejected] = []
    store.do(lambda database: add_numbers(database, wp_code, owner_id, numbers, aside.append))
    return aside


def new_customer(store: Store, *, credits_: int = 10_000, kind: str = "live") -> Caller:
    """A new account that can have waybills issued, as fast as it likes."""
    made = new_caller(
        store, operations=(WAYBILLS,), credits_=credits_, rate_limit=100_000, kind=kind
    )
    store.do(lambda database: authorize(database, made.account_id, WAYBILLS, SHOP))
    return made


def authorize_shops(store: Store, customer: Caller, *owner_ids: str) -> None:
    """More shops let a customer issue their waybills."""

    async def work(database: Database) -> None:
        for owner_id in owner_ids:
            await authorize(database, customer.account_id, WAYBILLS, shop(owner_id))

    store.do(work)


def request(wp_code: str, **changes: object) -> dict[str, Any]:
    """A request that succeeds, for an order of its own."""
    return {
        "owner_id": SHOP.id,
        "order_sn": f"SN{next(_orders):08d}",
        "sender_name": "青禾生活旗舰店",
        "sender_mobile": "0571-88886666",
        "sender_province": "浙江省",
        "sender_city": "杭州市",
        "sender_town": "余杭区",
        "sender_detail": "五常街道文一西路 969 号",
        "wp_code": wp_code,
        "waybill_type": "1",
        "receiver_province": "广东省",
        "receiver_city": "深圳市",
        "receiver_town": "南山区",
        "receiver_address": "粤海街道高新南七道 20 号",
        "receiver_phone": "13812345678",
        "receiver_name": "王小明",
        **changes,
    }


def issue(gateway: Gateway, token: str, body: object, **headers: str) -> Reply:
    sent = {"Authorization": f"Bearer {token}", **headers}
    return reply_of(gateway.client.post(WAYBILLS.path, json=body, headers=sent))


def without_charge(value: Any) -> Any:
    """An answer as its repetition has it: nothing was taken for that, all else is the same."""
    if isinstance(value, list):
        return [without_charge(each) for each in value]
    if isinstance(value, dict):
        return {
            name: 0 if name == "withholding_money" else without_charge(each)
            for name, each in value.items()
        }
    return value


def waybill_part(data: dict[str, Any]) -> dict[str, Any]:
    """All of an answer that is the waybill's, and not the one call's."""
    return {name: value for name, value in data.items() if name != "withholding_money"}
