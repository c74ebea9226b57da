"""Where a carrier delivers: everywhere, only in some provinces, or everywhere but in some."""

from enum import Enum

import msgspec

from tollway.contract.language import Phrase

_NOT_SERVED = Phrase(
    "The carrier does not deliver to {province}: choose another carrier.",
    "该快递公司不派送至{province}：请更换快递公司。",
)


class AreaKind(Enum):
    """How the list of provinces is meant."""

    ALL = "all"
    ONLY = "only"
    EXCEPT = "except"


class ServiceArea(msgspec.Struct, frozen=True):
    """The provinces a carrier serves."""

    kind: AreaKind = AreaKind.ALL
    provinces: tuple[str, ...] = ()

    def serves(self, province: str) -> bool:
        if self.kind is AreaKind.ALL:
            return True
        is_listed = _key(province) in {_key(each) for each in self.provinces}
        return is_listed is (self.kind is AreaKind.ONLY)

    def refusal(self, province: str, language: str) -> str | None:
        """Why nothing can be sent to a province; None if it can."""
        if self.serves(province):
            return None
        return _NOT_SERVED.fill(language, {"province": province})


def _key(province: str) -> str:
    """One and the same for 广东 and 广东省, 新疆 and 新疆维吾尔自治区.

    The first two characters tell all provinces apart; names in other scripts are compared whole.
    """
    name = province.strip()
    return name.casefold() if name.isascii() else name[:2]
