"""Stage: from the request's bytes to one typed request. Nothing is parsed before this stage."""

from collections.abc import Awaitable, Mapping, Sequence
from functools import lru_cache, partial
from urllib.parse import quote
from zoneinfo import ZoneInfo

import msgspec

from tollway.contract.decoding import Decoder, declared_fields
from tollway.contract.fields import Choice, Code, Line, Text, Whole
from tollway.contract.language import Phrase
from tollway.contract.operation import Encoding, Operation
from tollway.contract.reasons import Reason, Refusal
from tollway.contract.request_parsing import read_body, read_query, unpacked
from tollway.contract.time_fields import Day, Moment, Seconds
from tollway.pipeline.bodies import FirstPiece
from tollway.pipeline.call import Call

# Looked up once: an enum member takes four times as long to look up as a global.
_QUERY = Encoding.QUERY
_CACHED_QUERY_MAX = 512
_CACHED_BODY_MAX = 1024
_KEPT_KINDS: set[type] = {Choice, Code, Day, Line, Moment, Seconds, Text, Whole}
# At most 4 KB of a header.
_LISTED_MAX, _NAME_MAX, _MORE = 10, 32, "..."


class Decode:
    """Reads the operation's parameters from the query or the body, by its encoding.

    Decoded query strings and short bodies are cached, since clients repeat the same ones, and a
    decoded request is never changed. Bodies with personal data are not cached.
    """

    def __init__(self, operations: Sequence[Operation], zone: ZoneInfo) -> None:
        self._zone = zone
        self._decoders = {
            each.name: Decoder(each.request_type, each.not_taken) for each in operations
        }
        self._checks = {each.name: each.check for each in operations}
        self._kept = {each.name for each in operations if _may_be_kept(each)}
        self._from_query = lru_cache(maxsize=4096)(self._decode_query)
        self._from_body = lru_cache(maxsize=4096)(self._decode_body)

    def __call__(self, call: Call) -> Awaitable[object] | None:
        if call.operation.encoding is not _QUERY:
            return self._read_body(call)
        # Long queries are unusual, and thousands of them would fill the memory.
        is_cached = len(call.query) <= _CACHED_QUERY_MAX
        decode = self._from_query if is_cached else self._decode_query
        try:
            call.request, call.ignored = decode(call.operation.name, call.query)
        except Refusal as refusal:
            is_missing = refusal.reason is Reason.PARAMETER_MISSING
            may_be_in_body = is_missing and call.headers.get(b"content-length", b"0") != b"0"
            raise _elsewhere(refusal, _IN_QUERY) if may_be_in_body else refusal from None
        return None

    def _decode_query(self, operation_name: str, query: bytes) -> tuple[msgspec.Struct, str]:
        return self.decode(operation_name, read_query(query))

    def _read_body(self, call: Call) -> Awaitable[object] | None:
        body = call.body
        body.check_length(call.operation.body_max_bytes)
        if body.is_over:
            self._take_body(call, b"")
            return None
        first = body.begin(partial(self._take_first, call))
        return self._read_long(call) if first is None else first

    def _take_first(self, call: Call, first: FirstPiece) -> Awaitable[None] | None:
        if not first.is_all or len(first.piece) > call.operation.body_max_bytes:
            return self._read_long(call, first)
        self._take_body(call, first.piece)
        return None

    async def _read_long(self, call: Call, begun: FirstPiece | None = None) -> None:
        limit, sender = call.operation.body_max_bytes, call.caller.account_id
        self._take_body(call, await call.body.read(limit, sender, begun))

    def _take_body(self, call: Call, body: bytes) -> None:
        limit = call.operation.body_max_bytes
        packing = call.headers.get(b"content-encoding")
        if packing is not None:
            body = unpacked(packing.decode("latin-1"), body, limit)
        content_type = call.headers.get(b"content-type", b"").decode("latin-1")
        name, members_max = call.operation.name, call.operation.members_max
        is_cached = len(body) + len(content_type) <= _CACHED_BODY_MAX and name in self._kept
        decode = self._from_body if is_cached else self._decode_body
        try:
            call.request, call.ignored = decode(name, content_type, body, members_max)
        except Refusal as refusal:
            raise self._seen_in_query(refusal, call) from None
        if call.query:
            self._check_query(call)

    def _check_query(self, call: Call) -> None:
        """Nothing is read from the query of a request with a body. Unknown names there are listed
        with those of the body. A parameter that would change the answer is refused, a misspelled
        one as in the body, and a query that cannot be read: any of its parameters could be one."""
        sent = read_query(call.query)
        decoder = self._decoders[call.operation.name]
        try:
            decoder.check_same(sent, call.request)
        except Refusal as refusal:
            raise _elsewhere(refusal, _IN_BODY) from None
        unknown = decoder.ignored(sent)
        if unknown:
            call.ignored = listed_together(call.ignored, _listed(unknown))

    def _seen_in_query(self, refusal: Refusal, call: Call) -> Refusal:
        if not call.query or refusal.reason is not Reason.PARAMETER_MISSING:
            return refusal
        try:
            sent = read_query(call.query)
        except Refusal:
            return refusal
        is_there = self._decoders[call.operation.name].names(sent, refusal.values["field"])
        return _elsewhere(refusal, _IN_BODY) if is_there else refusal

    def _decode_body(
        self, operation_name: str, content_type: str, body: bytes, members_max: int
    ) -> tuple[msgspec.Struct, str]:
        return self.decode(operation_name, read_body(content_type, body, members_max))

    def decode(self, operation_name: str, raw: Mapping[str, object]) -> tuple[msgspec.Struct, str]:
        """The request, and which parameters were ignored."""
        request, ignored = self._decoders[operation_name].read(raw)
        check = self._checks[operation_name]
        if check is not None:
            check(request, self._zone)
        return request, _listed(ignored) if ignored else ""


# Many clients send parameters where another method has them: then "missing" alone says too little.
_IN_BODY = Phrase(
    ", in the body and not in the query string", "（放在请求体中，而不是查询字符串中）"
)
_IN_QUERY = Phrase(
    ", in the query string and not in the body", "（放在查询字符串中，而不是请求体中）"
)


def _elsewhere(refusal: Refusal, place: Phrase) -> Refusal:
    """The refusal of a parameter that is missing where it belongs, with where to send it."""
    expected = refusal.values.get("expected")
    if not isinstance(expected, Phrase):
        return refusal
    there = Phrase(expected.en + place.en, expected.zh + place.zh)
    return Refusal(refusal.reason, **{**refusal.values, "expected": there})


def _may_be_kept(operation: Operation) -> bool:
    """Whether no parameter may be personal, such as a phone number or one that contains others."""
    fields = declared_fields(operation.request_type)
    return all(type(each.field.kind) in _KEPT_KINDS for each in fields)


def _listed(names: list[str]) -> str:
    """Names that a caller chose, escaped for a header."""
    listed = [quote(name[:_NAME_MAX], safe="", errors="replace") for name in names[:_LISTED_MAX]]
    return ", ".join(listed if len(names) <= _LISTED_MAX else [*listed, _MORE])


def listed_together(*lists: str) -> str:
    """Several such lists as one, with each name once."""
    names = dict.fromkeys(name for each in lists if each for name in each.split(", "))
    has_more = _MORE in names or len(names) > _LISTED_MAX
    some = [name for name in names if name != _MORE][:_LISTED_MAX]
    return ", ".join([*some, _MORE] if has_more else some)
