"""Random calls: pages of every size and filter, deep ones, repeated keys, and every refusal."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

from tests.model import records
from tests.model.expected.accounts import Account
from tests.model.expected.deciding import SANDBOX_PRODUCTS
from tests.model.expected.model import Model
from tests.model.expected.outcomes import Ask

# The first shop and the first user never take their consent back.
SHOPS = ("880012001", "880012002")
USERS = ("116385041", "116385043")
_UNKNOWN = "990000009"
_ZONE = ZoneInfo("Asia/Shanghai")
_WEEK_S = 604_800
_START_S = records.START_MS // 1000
# Changes to good parameters that are refused; None leaves one out.
_WRONG: dict[str, tuple[dict[str, Any], ...]] = {
    "orders": (
        {"owner_id": None},
        {"pageSize": "0"},
        {"pageSize": "101"},
        {"page": "-1"},
        {"page": "one"},
        {"vvtype": "3"},
        {"remarkTag": "6"},
        {"start_time": "yesterday"},
        {"PageSize": "1"},
        {"remarktag": "1"},
        {"owner_id": " "},
    ),
    "coupon_claims": (
        {"sid": None},
        {"type": "5"},
        {"limit": "1001"},
        {"page": "0"},
        {"endTime": None},
        {"startTime": "1768406400000"},
        {"sidd": "s"},
        {"type": ""},
    ),
    "product_analysis": (
        {"query_date": "2026-02-30"},
        {"query_date": None},
        {"product_id": None},
        {"Product_id": "1"},
    ),
    "promotion_material": (
        {"page_size": 11},
        {"adzone_id": None},
        {"site_id": "x"},
        {"material_id": 1},
        {"adzoneid": 1},
    ),
}
# Parameters that are good, each of them, and are refused together.
_WRONG_TOGETHER: dict[str, tuple[dict[str, Any], ...]] = {
    "orders": (
        {"owner_id": SHOPS[0], "vvtype": "2", "remarkTag": "1"},
        {"owner_id": SHOPS[0], "start_time": str(_START_S), "end_time": str(_START_S)},
    ),
    "coupon_claims": (
        {"startTime": str(_START_S), "endTime": str(_START_S)},
        {"startTime": str(_START_S), "endTime": str(_START_S + _WEEK_S + 1)},
    ),
}


class Calls:
    """Draws calls, from a source of chance of its own."""

    def __init__(self, chance: Random, model: Model, name: str) -> None:
        self._chance = chance
        self._model = model
        self._name = name
        self._keys = 0

    def any_call(self, account: Account, operations: Sequence[str]) -> Ask:
        """A call of an account: most are such that they succeed if it may make them."""
        operation, token = self._chance.choice(operations), self._token(account)
        dice = self._chance.random()
        if dice < 0.03:
            return Ask(operation, self._wrong(operation), token)
        if dice < 0.04:
            fault = self._chance.choice(("PATH_UNKNOWN", "METHOD_WRONG"))
            return Ask(operation, self._parameters(operation), token, fault=fault)
        if dice < 0.12 and account.kept:
            return self._again(account, token)
        return Ask(operation, self._parameters(operation), token, self._key())

    def sandbox_call(self, token: str) -> Ask:
        product = self._chance.choice((*SANDBOX_PRODUCTS, "1"))
        return Ask("product_analysis", {"product_id": product, "query_date": str(_today())}, token)

    def _token(self, account: Account) -> str | None:
        """Mostly one that holds."""
        own = [
            (text, token.is_valid.now)
            for text, token in list(self._model.tokens.items())
            if token.account is account and not token.is_test
        ]
        valid = [text for text, is_valid in own if is_valid]
        if valid and self._chance.random() < 0.97:
            return self._chance.choice(valid)
        first = own[0][0]
        return self._chance.choice((None, f"{first[:-1]}_", *(text for text, _ in own)))

    def _key(self) -> str | None:
        """Mostly none; else a new one, or what is none."""
        dice = self._chance.random()
        if dice < 0.15:
            self._keys += 1
            return f"{self._name}-{self._keys}"
        return self._chance.choice(("", "x" * 256, "a\tb")) if dice > 0.995 else None

    def _again(self, account: Account, token: str | None) -> Ask:
        """A key once more: with its own request, or with another one."""
        key = self._chance.choice(list(account.kept))
        kept = account.kept[key]
        if self._chance.random() < 0.8:
            return Ask(kept.operation, kept.sent, token, key)
        return Ask(kept.operation, self._parameters(kept.operation), token, key)

    def _wrong(self, operation: str) -> dict[str, Any]:
        together = _WRONG_TOGETHER.get(operation)
        if together is not None and self._chance.random() < 0.4:
            good = {"page": "1", "limit": "9", "sid": "s", "type": "4"}
            return {
                **(good if operation == "coupon_claims" else {}),
                **self._chance.choice(together),
            }
        changed = {**self._parameters(operation), **self._chance.choice(_WRONG[operation])}
        return {name: value for name, value in changed.items() if value is not None}

    def _parameters(self, operation: str) -> dict[str, Any]:
        draw = {
            "orders": self._orders,
            "coupon_claims": self._claims,
            "product_analysis": self._analysis,
            "promotion_material": self._material,
        }
        return draw[operation]()

    def _orders(self) -> dict[str, Any]:
        chance = self._chance
        asked = {"owner_id": chance.choice((*SHOPS * 8, _UNKNOWN))}
        if chance.random() < 0.1:
            asked["vvtype"] = "2"
        else:
            asked |= self._filters()
        size = chance.choice((1, 2, 7, 20, 50, 99, 100, None))
        if size is not None:
            asked[chance.choice(("pageSize", "page_size"))] = chance.choice(("{}", " {} ")).format(
                size
            )
        elif chance.random() < 0.5:
            asked |= {"pageSize": "", "vvtype": asked.get("vvtype", " ")}
        if chance.random() < 0.8:
            shop = self._model.shops[asked["owner_id"]].now
            last = len(shop.orders) // (size or 100)
            asked["page"] = str(
                chance.choice((0, 0, last, last + 1, chance.randint(0, last), 10**6))
            )
        return asked

    def _filters(self) -> dict[str, str]:
        chance = self._chance
        asked = {}
        if chance.random() < 0.4:
            first, last = sorted(records.confirm_ms(chance) + chance.choice((0, 1)) for _ in "12")
            which = chance.choice(("start", "end", "both"))
            if which != "end":
                asked["start_time"] = self._moment(first)
            if which != "start":
                # At least a second after the start, whatever the form of either.
                asked["end_time"] = self._moment(max(last, first + 2000))
        if chance.random() < 0.25:
            asked[chance.choice(("remarkTag", "remark_tag"))] = str(chance.randint(1, 5))
        if chance.random() < 0.25:
            name = chance.choice(("remarkTagName", "remark_tag_name"))
            asked[name] = chance.choice([each for each in records.TAG_NAMES if each])
        if chance.random() < 0.15:
            asked["remark"] = chance.choice(("quick", "Quick", "%", "_", "'", "请", "🎁", "xyz"))
        return asked

    def _moment(self, at_ms: int) -> str:
        """In milliseconds, in seconds, as the wall has it, or with an offset."""
        wall = datetime.fromtimestamp(at_ms // 1000, _ZONE)
        written = (wall.strftime("%Y-%m-%d %H:%M:%S"), wall.isoformat())
        return self._chance.choice((str(at_ms), str(at_ms // 1000), *written))

    def _claims(self) -> dict[str, Any]:
        chance = self._chance
        start_s = records.confirm_ms(chance) // 1000 + chance.randrange(-1, 8) * 86_400
        limit = chance.choice((1, 3, 50, 1000, chance.randint(1, 1000)))
        pages = len(self._model.claims.now.claims) // (6 * limit) + 1
        span_s = chance.choice((1, 3600, 86_400, _WEEK_S, chance.randint(1, _WEEK_S)))
        return {
            "startTime": str(start_s),
            "endTime": str(start_s + span_s),
            "page": str(chance.choice((1, 1, chance.randint(1, pages), pages, 2_147_483_647))),
            "limit": str(limit),
            "sid": chance.choice((*records.SIDS * 5, "unknown", f" {records.SIDS[0]} ")),
            "type": chance.choice("446"),
        }

    def _analysis(self) -> dict[str, Any]:
        chance = self._chance
        back = chance.choice((0, 0, 1, 2, chance.randrange(45), -2))
        return {
            "product_id": chance.choice((*records.PRODUCTS * 4, "unknown")),
            "query_date": str(_today() - timedelta(days=back)),
        }

    def _material(self) -> dict[str, Any]:
        chance = self._chance
        asked: dict[str, Any] = {
            "adzone_id": 110_358_026,
            "site_id": chance.choice((45_928_134, "45928134")),
            chance.choice(("promotion_id", "material_id")): chance.choice(
                (*records.PROMOTIONS * 3, 61809)
            ),
            chance.choice(("platform_user_id", "taobao_user_id")): int(
                chance.choice((*USERS * 8, _UNKNOWN))
            ),
        }
        if chance.random() < 0.7:
            asked["page_size"] = chance.randint(1, 10)
        if chance.random() < 0.7:
            asked["page_num"] = chance.choice((1, 2, 3, 100))
        return asked


def _today() -> date:
    return datetime.now(_ZONE).date()
