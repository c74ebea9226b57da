"""What tests of connectors share: one fake carrier, and questions to it over real HTTP."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import TypeVar

import pytest

from tests.support.fake_carrier import SECRET, FakeCarrier
from tollway.carriers.carrier_links import CarrierLink, OpenedCarrierLink
from tollway.carriers.carriers import Carrier, ServiceArea
from tollway.carriers.connectors.breaker import Breaker
from tollway.carriers.connectors.connector import Connector, IssueOrder, OrderRef
from tollway.carriers.connectors.http_exchange import open_client
from tollway.carriers.connectors.remote_carriers import GuardedConnector
from tollway.carriers.connectors.signed_form import SignedFormConnector
from tollway.carriers.labels.print_data import Address, Party

T = TypeVar("T")
FORMAT = r"YT\d{13}"
SENDER = Party("金丝雀寄件人", "15500001111", Address("浙江省", "杭州市", "余杭区", "寄件路一号"))
RECIPIENT = Party(
    "金丝雀收件人", "15500002222", Address("广东省", "深圳市", "南山区", "金丝雀收件路二号")
)
_tasks = count(1)


class Clock:
    """A monotonic clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture(scope="session")
def shared_fake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeCarrier]:
    started = FakeCarrier(tmp_path_factory.mktemp("carrier"))
    yield started
    assert started.stop() == 0


@pytest.fixture
def fake(shared_fake: FakeCarrier) -> Iterator[FakeCarrier]:
    """The carrier, which behaves until a test has it misbehave."""
    yield shared_fake
    shared_fake.misbehave("none")


def new_order() -> IssueOrder:
    number = next(_tasks)
    ref = OrderRef(f"wb_{number:012d}", "880012001", f"SN{number:08d}")
    return IssueOrder(ref, SENDER, RECIPIENT, 1)


def link_to(url: str, *, secret: str = SECRET, deadline_ms: int = 5000) -> OpenedCarrierLink:
    return OpenedCarrierLink(
        CarrierLink("YTO", url, "TOLLWAY", "YTO-CODE", deadline_ms, 60, 0), secret
    )


def carrier_with(number_format: str = FORMAT) -> Carrier:
    return Carrier("YTO", "圆通速递", number_format, ServiceArea())


def ask(
    opened: OpenedCarrierLink,
    question: Callable[[Connector], Awaitable[T]],
    *,
    number_format: str = FORMAT,
    breaker: Breaker | None = None,
) -> T:
    """What a connector over this link answers."""

    async def work() -> T:
        async with open_client() as client:
            used = breaker or Breaker("YTO", lambda: 0.0)
            carrier = carrier_with(number_format)
            inner = SignedFormConnector(client, carrier, opened)
            return await question(GuardedConnector(inner, carrier, opened.link, used))

    return asyncio.run(work())
