"""What the gateway answers, read from it over HTTP: the peers get their data from here, so that
they send the same bytes."""

import http.client
import socket
from typing import NamedTuple

import msgspec

from bench.load import NUMBER
from bench.scenarios import (
    PROMOTIONS,
    Amounts,
    analysis,
    claims,
    materials,
    orders,
    product_days,
    waybill,
)
from bench.world import World
from tollway.demo.owners import ADZONE_ID, SITE_ID, USER

SLOT = f"mm_{USER.id}_{SITE_ID}_{ADZONE_ID}"
_ORDERS_AT_ONCE, _CLAIMS_AT_ONCE = 100, 1000


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def data(self) -> bytes:
        return bytes(msgspec.json.decode(self.body, type=_Envelope).data)


class _Envelope(msgspec.Struct):
    code: int
    msg: str
    data: msgspec.Raw


class _Orders(msgspec.Struct):
    content: list[msgspec.Raw]
    total_elements: int


class _Claims(msgspec.Struct):
    total: int
    dataList: list[msgspec.Raw]


class Data(NamedTuple):
    """Ready records of every operation, in the order of their listing."""

    analyses: dict[tuple[str, str], bytes]
    orders: list[bytes]
    claims: list[bytes]
    materials: dict[int, list[bytes]]
    waybill: bytes

    @property
    def amounts(self) -> Amounts:
        return Amounts(len(self.orders) // 20, len(self.claims) // 20)


class Asker:
    """Sends requests as they are, over one connection until the server closes it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None

    def ask(self, request: bytes) -> Answer:
        try:
            return self._ask(request)
        except ConnectionError:
            # Servers close a connection that was not used for some seconds.
            self.close()
            return self._ask(request)

    def _ask(self, request: bytes) -> Answer:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=30)
        self._socket.sendall(request)
        response = http.client.HTTPResponse(self._socket)
        response.begin()
        body = response.read()
        if response.will_close:
            self.close()
        return Answer(response.status, response.getheaders(), body)

    def data(self, request: bytes) -> bytes:
        answer = self.ask(request)
        if answer.status != 200:
            raise SystemExit(f"The gateway refused a call of the bench: {answer.body.decode()}")
        return answer.data

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def read_answers(port: int, world: World) -> Data:
    asker, token = Asker(port), world.tokens.paying
    analyses = {each: asker.data(analysis(token, *each)) for each in product_days(world)}
    listed: list[bytes] = []
    page, total = 0, 1
    while len(listed) < total:
        found = msgspec.json.decode(asker.data(orders(token, page, _ORDERS_AT_ONCE)), type=_Orders)
        listed += map(bytes, found.content)
        page, total = page + 1, found.total_elements
    claimed: list[bytes] = []
    page, total = 1, 1
    while len(claimed) < total:
        batch = msgspec.json.decode(asker.data(claims(world, page, _CLAIMS_AT_ONCE)), type=_Claims)
        claimed += map(bytes, batch.dataList)
        page, total = page + 1, batch.total
    shown = {each: _materials(asker, token, each) for each in PROMOTIONS}
    issued = asker.data(waybill(token, f"SN{NUMBER.decode()}"))
    asker.close()
    return Data(analyses, listed, claimed, shown, issued)


def _materials(asker: Asker, token: str, promotion_id: int) -> list[bytes]:
    found = []
    for page in (1, 2, 3):
        data = msgspec.json.decode(asker.data(materials(token, promotion_id, page)))
        result = data["affiliate_sc_optimus_promotion_response"]["result_list"]
        found += [msgspec.json.encode(each) for each in result["map_data"]]
    return found
