"""Whether what was answered is what may be expected."""

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from tests.model.client import Answer
from tests.model.expected.accounts import Account
from tests.model.expected.outcomes import Outcome

_SHOWN_CHARACTERS = 300
_SHOWN_DIFFERENCES = 6
_LINK_LIFETIME_S = 3600


class MismatchError(AssertionError):
    """The gateway said something else than the model."""


def canonical(value: object) -> str:
    """Equal only for what is equal on the wire: 1, 1.0 and true are three things."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def check_envelope(answer: Answer) -> None:
    """What every answer of an operation has, whatever it says."""
    body = answer.body
    whole = (
        answer.status == 200
        and list(body) == ["code", "msg", "msec", "time", "data"]
        and body["msg"]
        and answer.request_id
        and 0 <= body["msec"] <= answer.at.last_ms - answer.at.first_ms
        and answer.at.first_ms // 1000 <= body["time"] <= answer.at.last_ms // 1000
    )
    if not whole:
        raise MismatchError(f"not a whole envelope: {answer}")


def fitting(outcomes: Iterable[Outcome], answer: Answer) -> list[Outcome]:
    """Those of the outcomes that an answer may be of."""
    said = canonical(answer.body["data"])
    return [each for each in outcomes if _fits(each, answer, said)]


def _fits(outcome: Outcome, answer: Answer, said: str) -> bool:
    if outcome.code != answer.body["code"]:
        return False
    if outcome.replay_of != answer.headers.get("x-replay-of"):
        return False
    if outcome.code == 302:
        return _is_link(answer)
    return outcome.data is None or canonical(outcome.data) == said


def _is_link(answer: Answer) -> bool:
    data: dict[str, Any] = answer.body["data"]
    return (
        sorted(data) == ["authorize_url", "expires_at"]
        and "/authorize?link=" in data["authorize_url"]
        and 0 <= data["expires_at"] - answer.at.first_ms // 1000 - _LINK_LIFETIME_S <= 60
    )


def mismatch(ask: object, answer: Answer, outcomes: Iterable[Outcome]) -> MismatchError:
    """All that is needed to see what went wrong: how each outcome differs from the answer."""
    expected = "\n".join(
        f"  {each.code} {each.reason}, charged {each.charged}, replay of {each.replay_of}: "
        + "; ".join(islice(differences(each.data, answer.body["data"]), _SHOWN_DIFFERENCES))
        for each in outcomes
    )
    return MismatchError(
        f"{ask}\nwas answered with {str(answer.body)[:_SHOWN_CHARACTERS]}\n{dict(answer.headers)}\n"
        f"and could have been answered with any of\n{expected}"
    )


def differences(expected: Any, found: Any, path: str = "data") -> Iterator[str]:
    """Where two values differ, and how."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for name in sorted({*expected, *found}):
            yield from differences(expected.get(name), found.get(name), f"{path}.{name}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for number, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    elif canonical(expected) != canonical(found):
        yield f"{path} is {_short(found)} instead of {_short(expected)}"


def _short(value: Any) -> str:
    return f"a list of {len(value)}" if isinstance(value, list) else repr(value)[:200]


def check_export(account: Account, exported: list[dict[str, Any]]) -> int:
    """That an account's entries are those of the model; how many were compared."""
    found = sorted(exported, key=lambda each: (each["unit"], each["number"]))
    entries = sorted(account.entries, key=lambda each: (each.unit, each.number))
    for said, entry in zip(found, entries, strict=False):
        expected = {"account_id": account.id, **entry._asdict(), "at_ms": said["at_ms"]}
        at = expected.pop("at")
        if said != expected or not at.first_ms <= said["at_ms"] <= at.last_ms:
            raise MismatchError(f"account {account.name}: the ledger has\n  {said}\nnot\n  {entry}")
    if len(found) != len(entries):
        raise MismatchError(
            f"account {account.name}: the ledger has {len(found)} entries, not {len(entries)}"
        )
    return len(entries)
