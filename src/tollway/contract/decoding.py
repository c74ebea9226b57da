"""From raw values to one typed request, by the fields that the request type declares."""

from collections.abc import Mapping
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

from tollway.contract.fields import Field, Unfit
from tollway.contract.reasons import Reason, Refusal

R = TypeVar("R", bound=msgspec.Struct)


class DeclaredField(NamedTuple):
    """One field of a request type."""

    name: str
    field: Field
    required: bool


def declared_fields(request_type: type[msgspec.Struct]) -> tuple[DeclaredField, ...]:
    """The fields of a request type, in the order they are written."""
    hints = get_type_hints(request_type, include_extras=True)
    declared = []
    for info in msgspec.structs.fields(request_type):
        hint = hints[info.name]
        markers = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        field = next((marker for marker in markers if isinstance(marker, Field)), None)
        if field is None:
            raise TypeError(f"{request_type.__name__}.{info.name} has no Field annotation")
        declared.append(DeclaredField(info.name, field, info.required))
    return tuple(declared)


class Decoder(Generic[R]):
    """Decodes the raw values of one request type. Unknown names are ignored."""

    def __init__(self, request_type: type[R]) -> None:
        self._request_type = request_type
        self._fields = declared_fields(request_type)

    def decode(self, raw: Mapping[str, object]) -> R:
        values: dict[str, Any] = {}
        for name, field, required in self._fields:
            value = self._raw_value(raw, name, field)
            if value is not None:
                values[name] = self._typed(name, field, value)
            elif required:
                raise Refusal(Reason.PARAMETER_MISSING, field=name, expected=field.kind.expected)
        return self._request_type(**values)

    @staticmethod
    def _raw_value(raw: Mapping[str, object], name: str, field: Field) -> object:
        """The value under either spelling; null counts as not sent."""
        value = raw.get(name)
        if field.other_spelling is None:
            return value
        other = raw.get(field.other_spelling)
        if value is None or other is None:
            return other if value is None else value
        # The same value may come once as a number and once as its digits.
        if str(value) != str(other):
            raise Refusal(Reason.SPELLINGS_CONFLICT, field=name, other=field.other_spelling)
        return value

    @staticmethod
    def _typed(name: str, field: Field, value: object) -> Any:
        try:
            return field.kind.read(value)
        except Unfit as unfit:
            raise Refusal(
                Reason.PARAMETER_INVALID,
                field=name,
                problem=unfit.problem,
                expected=field.kind.expected,
            ) from None
