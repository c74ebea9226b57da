"""Up to 100 waybills in one call, each with a result, a charge and a receipt of its own."""

from typing import Annotated, Any

import msgspec

from tollway.contract.decoding import declared_fields
from tollway.contract.fields import Field, InvalidValueError
from tollway.contract.language import Phrase
from tollway.contract.operation import Encoding, Operation, Unit
from tollway.operations.waybills.operation import WAYBILLS, WaybillRequest, WaybillResult

WAYBILLS_MAX = 100


class Requests(msgspec.Struct, frozen=True):
    """A list of requests of another operation, each decoded separately: a wrong one does not fail
    the others."""

    of: type[msgspec.Struct]
    most: int

    @property
    def expected(self) -> Phrase:
        return Phrase(f"a list of 1 to {self.most} objects", f"1 到 {self.most} 个对象的列表")

    def read(self, raw: object) -> list[dict[str, Any]]:
        if not isinstance(raw, list) or not all(isinstance(each, dict) for each in raw):
            raise InvalidValueError(Phrase("it is not a list of objects", "不是对象的列表"))
        if not 1 <= len(raw) <= self.most:
            raise InvalidValueError(Phrase(f"it has {len(raw)} items", f"有 {len(raw)} 项"))
        return raw

    def schema(self) -> dict[str, object]:
        fields = declared_fields(self.of)
        spelled = {
            name: {**each.field.kind.schema(), "description": each.field.meaning}
            for each in fields
            for name in (each.name, each.field.other_spelling)
            if name is not None
        }
        required = [each.name for each in fields if each.required and not each.field.other_spelling]
        item = {"type": "object", "properties": spelled, "required": required}
        return {"type": "array", "items": item, "minItems": 1, "maxItems": self.most}


class WaybillBatchRequest(msgspec.Struct, frozen=True):
    waybills: Annotated[
        list[dict[str, Any]],
        Field(
            Requests(WaybillRequest, WAYBILLS_MAX),
            "The waybills, each with the parameters of waybill issuing.",
        ),
    ]


class WaybillBatchItem(msgspec.Struct, frozen=True):
    """What became of one waybill: code, reason and msg as a call of its own would have them.
    `waybill` is null unless the code is 0; `authorize_url` and `expires_at` are there if it is
    302."""

    order_sn: str | None
    request_id: str
    code: int
    reason: str
    msg: str
    waybill: WaybillResult | None
    authorize_url: str | None
    expires_at: int | None


class WaybillBatch(msgspec.Struct, frozen=True):
    """The results in the order of the request, and what all of them took together."""

    results: list[WaybillBatchItem]
    withholding_money: int


WAYBILL_BATCH = Operation(
    name="waybills_batch",
    title="Up to 100 waybills in one call",
    method="POST",
    path=f"{WAYBILLS.path}/batch",
    encoding=Encoding.JSON,
    request_type=WaybillBatchRequest,
    response_type=WaybillBatch,
    unit=Unit.CREDITS,
    default_price=WAYBILLS.default_price,
    may_be_free=True,
    belongs_to=WAYBILLS.name,
    batch_of=WAYBILLS,
    body_max_bytes=524_288,
    members_max=40 * WAYBILLS_MAX,
)
