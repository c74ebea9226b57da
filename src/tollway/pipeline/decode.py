"""Stage: from the request's bytes to one typed request. Nothing is parsed before this stage."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from zoneinfo import ZoneInfo

import msgspec

from tollway.contract.decoding import Decoder
from tollway.contract.operation import Encoding, Operation
from tollway.contract.parsing import read_form, read_json, read_query
from tollway.pipeline.call import Call

_BODY_READERS: dict[Encoding, Callable[[str, bytes], Mapping[str, object]]] = {
    Encoding.FORM: read_form,
    Encoding.JSON: read_json,
}
_CACHED_QUERY_MAX = 512


class Decode:
    """Reads the operation's parameters from the query or the body, by its encoding.

    The requests of the last query strings are cached, since clients repeat the same queries, and a
    request never changes.
    """

    def __init__(self, operations: Sequence[Operation], zone: ZoneInfo) -> None:
        self._zone = zone
        self._decoders = {each.name: Decoder(each.request_type) for each in operations}
        self._checks = {each.name: each.check for each in operations}
        self._from_query = lru_cache(maxsize=4096)(self._decode_query)

    def __call__(self, call: Call) -> Awaitable[None] | None:
        if call.operation.encoding is not Encoding.QUERY:
            return self._read_body(call)
        # A long one is no usual query, and thousands of them would fill the memory.
        is_cached = len(call.query) <= _CACHED_QUERY_MAX
        decode = self._from_query if is_cached else self._decode_query
        call.request = decode(call.operation_name, call.query)
        return None

    def _decode_query(self, operation_name: str, query: bytes) -> msgspec.Struct:
        return self._decode(operation_name, read_query(query))

    async def _read_body(self, call: Call) -> None:
        body = await call.read_body(call.operation.body_max_bytes, call.caller.account_id)
        content_type = call.headers.get(b"content-type", b"").decode("latin-1")
        raw = _BODY_READERS[call.operation.encoding](content_type, body)
        call.request = self._decode(call.operation_name, raw)

    def _decode(self, operation_name: str, raw: Mapping[str, object]) -> msgspec.Struct:
        request = self._decoders[operation_name].decode(raw)
        check = self._checks[operation_name]
        if check is not None:
            check(request, self._zone)
        return request
