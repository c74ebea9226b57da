"""What a call may come to, and the receipt that it must have then."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.model.expected.accounts import Account, Between, Entry, Kept, unit_of


class Ask(NamedTuple):
    """A call. `fault` is set if its path is unknown or its method is wrong."""

    operation: str
    parameters: dict[str, Any]
    token: str | None
    key: str | None = None
    fault: str | None = None


@dataclass(eq=False)
class Consent:
    """The consent of an owner to the calls of an account. Its id is known when it has been given,
    which is later than it may be used."""

    owner_kind: str
    owner_id: str
    id: str = ""

    def said(self) -> dict[str, str]:
        return {
            "owner_kind": self.owner_kind,
            "owner_id": self.owner_id,
            "consent_id": self.id,
        }


class Outcome(NamedTuple):
    """What a call may be answered with, and what it costs then. No data is data that is not
    compared."""

    code: int
    reason: str
    data: dict[str, Any] | None = None
    charged: int = 0
    replay_of: str | None = None
    consent: Consent | None = None


@dataclass(frozen=True)
class Receipt:
    """What the receipt of a call must say; when it was made, and in which words, is not certain."""

    said: dict[str, Any]
    consent: Consent | None
    at: Between

    def differs(self, found: dict[str, Any]) -> list[str]:
        """The fields that are not as they must be."""
        wrong = [
            name
            for name, value in self.said.items()
            if name not in found or found[name] != value or type(found[name]) is not type(value)
        ]
        if not self.at.first_ms <= found.get("at_ms", 0) <= self.at.last_ms:
            wrong.append("at_ms")
        if not found.get("why"):
            wrong.append("why")
        if not self._is_under_consent(found):
            wrong.append("consent")
        return wrong

    def _is_under_consent(self, found: dict[str, Any]) -> bool:
        if self.said["replay_of"] is not None:
            return True  # Which consent a replay used may be said, or not.
        if self.consent is None:
            return found["consent"] is None
        return self.consent.id in ("", found["consent"]["consent_id"]) and found["consent"] == {
            **self.consent.said(),
            "consent_id": found["consent"]["consent_id"],
        }


def refused(code: int, reason: str) -> Outcome:
    return Outcome(code, reason, {})


def replayed(kept: Kept) -> Outcome:
    """The answer as it was given the first time; nothing is taken, and it says so."""
    return Outcome(0, "REPLAYED", _untaken(kept.data), replay_of=kept.request_id)


def _untaken(data: dict[str, Any]) -> dict[str, Any]:
    """Only orders tell the amount in a second place: each record of a page has it too."""
    untaken = {**data, "withholding_money": 0} if "withholding_money" in data else dict(data)
    if "content" in data:
        untaken["content"] = [{**each, "withholding_money": 0} for each in data["content"]]
    return untaken


def receipt_of(
    account: Account,
    operation: str,
    outcome: Outcome,
    request_id: str,
    entry: Entry | None,
    at: Between,
) -> Receipt:
    """The receipt of a call that had an outcome, and an entry if it was charged."""
    said: dict[str, Any] = {
        "request_id": request_id,
        "account_id": account.id,
        "operation": operation,
        "outcome": "not_charged",
        "code": outcome.code,
        "reason": outcome.reason,
        "amount": 0,
        "unit": None,
        "balance_before": None,
        "balance_after": None,
        "token_id": None,
        "replay_of": outcome.replay_of,
        "hold": None,
        "waybill": None,
    }
    if entry is not None:
        said |= {
            "outcome": "charged",
            "reason": "SUCCESS",
            "amount": -entry.amount,
            "unit": unit_of(operation),
            "balance_before": entry.balance_after - entry.amount,
            "balance_after": entry.balance_after,
            "token_id": entry.token_id,
        }
    return Receipt(said, outcome.consent, at)
