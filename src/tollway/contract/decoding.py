"""From raw values to one typed request, by the fields that the request type declares.

A parameter is accepted under its name, under its field's other spelling if there is one, and in the
other case, as answers and clients spell it: `pageSize` and `page_size`. A blank one counts as not
sent, but a limit (`Field.is_limit`) must not be blank.
"""

import re
from collections.abc import Container, Iterable, Mapping
from functools import cache
from itertools import islice
from typing import (
    Annotated,
    Any,
    Generic,
    NamedTuple,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from tollway.contract.fields import EMPTY, Field, InvalidValueError
from tollway.contract.language import Phrase
from tollway.contract.reasons import Reason, Refusal
from tollway.contract.request_parsing import PARAMETERS_MAX, shown

R = TypeVar("R", bound=msgspec.Struct)
_WHOLE = re.compile("-?[0-9]{1,18}")
_IN_QUERY = Phrase("it is in the query string", "位于查询字符串中")
_CHOOSES_NONE = Phrase("this call does not choose records by it", "该接口不能用它筛选记录")
_THE_OTHERS = Phrase("the others alone", "其余参数")


class DeclaredField(NamedTuple):
    """One field of a request type; it is also accepted under its other names."""

    name: str
    field: Field
    required: bool
    other_names: tuple[str, ...]


@cache
def declared_fields(request_type: type[msgspec.Struct]) -> tuple[DeclaredField, ...]:
    """The fields of a request type, in the order of their declaration."""
    hints = get_type_hints(request_type, include_extras=True)
    fields = {}
    for info in msgspec.structs.fields(request_type):
        hint = hints[info.name]
        markers = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        field = next((marker for marker in markers if isinstance(marker, Field)), None)
        if field is None:
            raise TypeError(f"{request_type.__name__}.{info.name} has no Field annotation")
        fields[info.name] = field, info.required
    return tuple(
        DeclaredField(name, field, required, _other_names(name, field, fields))
        for name, (field, required) in fields.items()
    )


def as_sent(field: Field, text: str) -> str | int:
    """A typed text as a program would send it: as an integer if the field is one. A text that is no
    integer stays as it is, and the call says what is wrong with it."""
    is_whole = field.kind.schema().get("type") == "integer" and _WHOLE.fullmatch(text)
    return int(text) if is_whole else text


def _other_names(name: str, field: Field, declared: Container[str]) -> tuple[str, ...]:
    spelled = [name] if field.other_spelling is None else [name, field.other_spelling]
    names = dict.fromkeys([*spelled, *map(_in_other_case, spelled)])
    return tuple(each for each in names if each != name and each not in declared)


def _in_other_case(name: str) -> str:
    """`page_size` for `pageSize`, and the other way round."""
    if "_" in name:
        first, *others = name.split("_")
        return first + "".join(each.capitalize() for each in others)
    return re.sub("(?<!^)[A-Z]", lambda capital: f"_{capital[0]}", name).lower()


class Decoder(Generic[R]):
    """Decodes the raw values of one request type."""

    def __init__(self, request_type: type[R], not_taken: Iterable[str] = ()) -> None:
        self._request_type = request_type
        self._not_taken = set(map(_plain, not_taken))
        self._fields = declared_fields(request_type)
        names = [(each, name) for name, _, _, others in self._fields for each in (name, *others)]
        self._known = {each for each, _ in names}
        self._alike = {_plain(each): name for each, name in names}
        self._by_shortened: dict[str, list[str]] = {}
        for each in self._alike:
            for shortened in _shortened(each):
                self._by_shortened.setdefault(shortened, []).append(each)
        for same in _SAME_THING:
            known = next((self._alike[each] for each in same if each in self._alike), None)
            if known is not None:
                self._alike = dict.fromkeys(same, known) | self._alike
        self._longest = max(map(len, self._alike), default=0)
        kinds = {name: field.kind for name, field, _, _ in self._fields}
        self._readers = {each: (name, kinds[name].read) for each, name in names}
        self._units = {name: field.unit for name, field, _, _ in self._fields if field.unit}
        self._limits = {
            each: field
            for name, field, _, others in self._fields
            if field.is_limit
            for each in (name, *others)
        }
        self._required = frozenset(name for name, _, required, _ in self._fields if required)

    def read(self, raw: Mapping[str, object]) -> tuple[R, list[str]]:
        """The request, and the names that it ignored."""
        request = self._read_plain(raw)
        if request is not None:
            return request, []
        # Before decoding, so that a misspelled parameter is reported as such, and not as missing.
        ignored = self.ignored(raw)
        return self.decode(raw), ignored

    def _read_plain(self, raw: Mapping[str, object]) -> R | None:
        """The fast path: the request if nothing in it is wrong, unknown or repeated; None if
        something is, or may be."""
        values: dict[str, Any] = {}
        readers = self._readers
        for sent, value in raw.items():
            reader = readers.get(sent)
            if reader is None:
                return None
            if value is None or (isinstance(value, str) and not value.strip()):
                if sent in self._limits:
                    return None
                continue
            name, read = reader
            if name in values:
                return None
            try:
                values[name] = read(value)
            except InvalidValueError:
                return None
        return self._request_type(**values) if self._required <= values.keys() else None

    def ignored(self, raw: Mapping[str, object]) -> list[str]:
        """The names that mean nothing here. Refuses an obvious typo, and what would choose records
        elsewhere: the caller would pay for another answer than the one they meant."""
        unknown = self.unknown(raw)
        # Only an item of a batch can have more names than these, and no honest one does.
        for name in islice(unknown, PARAMETERS_MAX):
            if _plain(name) in self._not_taken and str(raw[name] or "").strip():
                raise Refusal(
                    Reason.PARAMETER_INVALID,
                    field=shown(name),
                    problem=_CHOOSES_NONE,
                    expected=_THE_OTHERS,
                )
            meant = self._meant_by(name)
            if meant is not None:
                unit = self._units.get(meant)
                # Kilograms under the name of grams would be a thousandth.
                known = unit and Phrase(f"{meant} (in {unit.en})", f"{meant}（单位：{unit.zh}）")
                raise Refusal(Reason.PARAMETER_UNKNOWN, field=shown(name), known=known or meant)
        return unknown

    def unknown(self, raw: Iterable[str]) -> list[str]:
        return [name for name in raw if name not in self._known]

    def check_same(self, raw: Mapping[str, str], request: R) -> None:
        """Refuses a parameter in the query that the body lacks, or contradicts."""
        kinds = {name: field.kind for name, field, _, _ in self._fields}
        for sent, value in raw.items():
            name, read = self._readers.get(sent, ("", None))
            if read is None or not value.strip():
                continue
            try:
                is_same = read(value) == getattr(request, name)
            except InvalidValueError:
                is_same = False
            if not is_same:
                raise Refusal(
                    Reason.PARAMETER_INVALID,
                    field=sent,
                    problem=_IN_QUERY,
                    expected=kinds[name].expected,
                )

    def names(self, raw: Iterable[str], name: object) -> bool:
        """Whether a parameter is among these names, in any of its spellings."""
        return any(self._readers.get(each, ("",))[0] == name for each in raw)

    def _meant_by(self, unknown: str) -> str | None:
        if len(unknown) > _NAME_MAX:
            return None
        plain = _plain(unknown)
        if plain in self._alike:
            return self._alike[plain]
        # As many texts as it has letters would be made of it.
        if len(plain) > self._longest + 1:
            return None
        shortened = _shortened(plain)
        # The usual case, and a quick check: a call can have thousands of unknown names.
        if self._by_shortened.keys().isdisjoint(shortened):
            return None
        near = (self._by_shortened.get(each, ()) for each in shortened)
        alike = (each for some in near for each in some if _is_one_letter_off(plain, each))
        found = next(alike, None)
        return None if found is None else self._alike[found]

    def decode(self, raw: Mapping[str, object]) -> R:
        for sent, field in self._limits.items():
            if sent in raw and _is_blank(raw[sent]):
                raise _blank(sent, field)
        values: dict[str, Any] = {}
        for name, field, required, others in self._fields:
            value, found_as = _raw_value(raw, name, others)
            if value is not None:
                values[name] = _typed(found_as, field, value)
            elif required:
                raise Refusal(Reason.PARAMETER_MISSING, field=name, expected=field.kind.expected)
        return self._request_type(**values)


def _is_blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _raw_value(raw: Mapping[str, object], name: str, others: tuple[str, ...]) -> tuple[object, str]:
    """The value under any of the names, and the first one that has it; null and blank texts count
    as not sent."""
    value, found_as = None, name
    for each in (name, *others):
        other = raw.get(each)
        if _is_blank(other):
            continue
        if value is None:
            value, found_as = other, each
        # One spelling may have the value as a number, the other as its digits.
        elif str(value).strip() != str(other).strip():
            raise Refusal(Reason.SPELLINGS_CONFLICT, field=found_as, other=each)
    return value, found_as


def _blank(sent: str, field: Field) -> Refusal:
    meant = field.kind.expected
    expected = Phrase(f"{meant.en}, or leave it out", f"{meant.zh}，或不传")
    return Refusal(Reason.PARAMETER_INVALID, field=sent, problem=EMPTY, expected=expected)


def _typed(sent: str, field: Field, value: object) -> Any:
    try:
        return field.kind.read(value)
    except InvalidValueError as unfit:
        raise Refusal(
            Reason.PARAMETER_INVALID,
            field=sent,
            problem=unfit.problem,
            expected=field.kind.expected,
        ) from None


# Names shorter than the first resemble each other too much; no operation has names longer than the
# last. In a three-letter name, another letter is another name: `pid` is no typo for `sid`.
_ALIKE_FROM, _REPLACED_FROM, _NAME_MAX = 3, 4, 64
# Names of the same parameter in other APIs, as `_plain` writes them. A client that sends `page` but
# means `page_num` would pay for the first page again and again.
_SAME_THING = (
    (
        *("page", "pagenum", "pageno", "pagenumber", "pageindex", "currentpage", "curpage"),
        *("current", "offset", "skip", "cursor"),
    ),
    ("pagesize", "limit", "size", "perpage", "pagelimit", "pagelen", "pagelength", "rows"),
    (
        *("starttime", "startdate", "start", "begintime", "begindate", "begin"),
        *("fromtime", "fromdate", "from", "since"),
    ),
    ("endtime", "enddate", "end", "totime", "todate", "to", "until"),
)


def _plain(name: str) -> str:
    # Left where a query that is escaped for XML was split: `a=1&amp;page=2`.
    name = name.removeprefix("amp;")
    # Some libraries encode lists and objects as name[] or name[part].
    if name.endswith("]"):
        name = name.partition("[")[0]
    return name.replace("_", "").replace("-", "").replace(" ", "").lower()


def _shortened(name: str) -> list[str]:
    """A name, and the name without each of its letters in turn: two names that are one letter off
    have one of these in common."""
    return [name, *[name[:at] + name[at + 1 :] for at in range(len(name))]]


def _is_one_letter_off(one: str, other: str) -> bool:
    """Whether one letter is replaced or missing, or two are swapped."""
    shorter = min(len(one), len(other))
    if shorter < _ALIKE_FROM or abs(len(one) - len(other)) > 1:
        return False
    start = _common_start(one, other)
    one, other = one[start:], other[start:]
    end = _common_start(one[::-1], other[::-1])
    one, other = one[: len(one) - end], other[: len(other) - end]
    if len(one) == len(other) == 1:
        return shorter >= _REPLACED_FROM
    return max(len(one), len(other)) <= 1 or (len(one) == 2 and one == other[::-1])


def _common_start(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
