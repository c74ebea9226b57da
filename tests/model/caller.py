"""One who calls: draws calls of an account, compares each answer, and looks up receipts."""

from collections import Counter
from collections.abc import Sequence
from random import Random
from time import monotonic, sleep, time
from typing import NamedTuple

from tests.model.calls import Calls
from tests.model.client import Answer, Client
from tests.model.commands import Operator
from tests.model.comparing import MismatchError, check_envelope, fitting, mismatch
from tests.model.expected.accounts import CREDITS, Account, Between, unit_of
from tests.model.expected.model import Model
from tests.model.expected.outcomes import Ask, Receipt

# Of a call that was not charged it is there within a second; a busy machine has more time.
_RECEIPT_AFTER_S = 1.0
_RECEIPT_DEADLINE_S = 20.0
_PENDING_MAX = 20
# One less than the first of a kind, as the interface has them: a call may be of the minute before.
_OF_KIND_MAX, _OF_ACCOUNT_MAX = 9, 239
_POLL_S = 0.02
# An account that has less than this gets more, sooner or later.
_LITTLE = 3
_UNITS = (CREDITS, unit_of("product_analysis"))
_REFILL, _REFILL_OF_POOR = 50_000, 30


class _Due(NamedTuple):
    """A receipt to be asked for: what it may say, from when on, and by when it must be there."""

    request_id: str
    receipts: Sequence[Receipt]
    after_s: float
    deadline_s: float
    may_be_missing: bool


class Caller:
    """Calls for one account, one call after the other."""

    def __init__(
        self, model: Model, operator: Operator, account: Account, seed: str, *, is_poor: bool
    ) -> None:
        self.account = account
        self.answers = 0
        self._model = model
        self._operator = operator
        self._chance = Random(seed)
        self._calls = Calls(self._chance, model, seed)
        self._due: list[_Due] = []
        self._refill = _REFILL_OF_POOR if is_poor else _REFILL
        self._top_ups = 0
        # The calls of this minute that were not charged.
        self._minute = 0
        self._not_charged: Counter[tuple[str, int]] = Counter()

    def begin(self) -> None:
        """The first credits and calls."""
        for unit in _UNITS:
            self._top_up(unit, self._refill)

    def step(self, client: Client, operations: Sequence[str]) -> None:
        """One call, or something that belongs to it."""
        dice = self._chance.random()
        if self._due and dice < 0.06:
            due = self._due.pop(self._chance.randrange(len(self._due)))
            if dice < 0.002:
                self._ask_as_another(client, due)
            self._ask_receipt(client, due)
            return
        if 0.06 < dice < 0.12:
            self._refill_one()
        ask = self._calls.any_call(self.account, operations)
        if dice > 0.995:
            tokens = self._tokens(is_test=True)
            ask = self._calls.sandbox_call(self._chance.choice(tokens)) if tokens else ask
        self._compare(client, ask)

    def _refill_one(self) -> None:
        unit = self._chance.choice(_UNITS)
        left = self.account.balances.get(unit, 0)
        if left < _LITTLE:
            self._top_up(unit, self._refill)
        elif self._chance.random() < 0.005:
            self._top_up(unit, -self._chance.randint(1, left))

    def _top_up(self, unit: str, amount: int) -> None:
        """Adds to the balance; a negative amount corrects it."""
        self._top_ups += 1
        note = f"order {self._top_ups}"
        first_ms = int(time() * 1000)
        added = self._operator.top_up(self.account.name, unit, amount, note)
        at = Between(first_ms, int(time() * 1000) + 1)
        entry = self.account.top_up(unit, amount, note, at)
        said = (added["number"], added["kind"], added["amount"], added["balance_after"])
        if said != (entry.number, entry.kind, entry.amount, entry.balance_after):
            raise MismatchError(f"{added} was entered, not {entry}")

    def look_up_all(self, client: Client) -> None:
        """Asks for every receipt that is still due."""
        while self._due:
            self._ask_receipt(client, self._due.pop(0))
            if self._due and monotonic() < min(each.after_s for each in self._due):
                sleep(_POLL_S)

    def _compare(self, client: Client, ask: Ask) -> None:
        answer = client.call(ask, as_multipart=self._chance.random() < 0.5)
        self.answers += 1
        check_envelope(answer)
        outcomes = list(self._model.outcomes(ask, answer.span, answer.at))
        fit = fitting(outcomes, answer)
        if not fit:
            raise mismatch(ask, answer, outcomes)
        charges = {each.charged for each in fit}
        charged = fit[0].charged if len(charges) == 1 else self._amount_of(client, answer)
        fit = [each for each in fit if each.charged == charged]
        if not fit:
            raise mismatch(f"{ask}, charged {charged},", answer, outcomes)
        receipts = self._model.learn(ask, fit, answer.request_id, answer.at)
        is_first = bool(charged) or self._is_among_first(ask.operation, answer)
        if receipts and len(self._due) < _PENDING_MAX:
            # That of a charged call is there with its answer, the others' a moment later.
            after_s = monotonic() + (0 if charged else _RECEIPT_AFTER_S)
            deadline_s = monotonic() + (0 if charged else _RECEIPT_DEADLINE_S)
            due = _Due(answer.request_id, receipts, after_s, deadline_s, not is_first)
            self._due.append(due)

    def _is_among_first(self, operation: str, answer: Answer) -> bool:
        """Whether a call that was not charged surely has a receipt: of many of its kind in a minute
        only the first have."""
        minute = answer.at.first_ms // 60_000
        if minute != self._minute:
            self._minute, self._not_charged = minute, Counter()
        kind = (operation, int(answer.body["code"]))
        self._not_charged[kind] += 1
        is_certain = answer.at.last_ms // 60_000 == minute
        few = self._not_charged[kind] <= _OF_KIND_MAX
        return is_certain and few and self._not_charged.total() <= _OF_ACCOUNT_MAX

    def _amount_of(self, client: Client, answer: Answer) -> int:
        """What a call took, where its answer does not show by itself which price it had."""
        while True:
            found = client.receipt(self._tokens(is_test=False)[0], answer.request_id)
            if found.body["code"] != 401:
                return int(found.body["data"].get("amount", 0))

    def _ask_receipt(self, client: Client, due: _Due) -> None:
        if monotonic() < due.after_s:
            self._due.append(due)
            return
        tokens = self._tokens(is_test=False)
        if not tokens:
            return  # A closed account is shown none.
        token = self._chance.choice(tokens)
        answer = client.receipt(token, due.request_id)
        check_envelope(answer)
        if answer.body["code"] == 404 and due.may_be_missing:
            self.answers += 1
            return
        is_late = answer.body["code"] == 404 and monotonic() < due.deadline_s
        # The token may have been revoked in this very moment.
        is_revoked = False in self._model.tokens[token].is_valid.within(answer.span)
        if is_late or (is_revoked and answer.body["code"] == 401):
            self._due.append(due)
            return
        self.answers += 1
        found = answer.body["data"]
        if answer.body["code"] or all(each.differs(found) for each in due.receipts):
            expected = [(each.differs(found), each) for each in due.receipts]
            raise MismatchError(
                f"the receipt is {answer.body}\nwhich differs from all of {expected}"
            )

    def _ask_as_another(self, client: Client, due: _Due) -> None:
        """Another account has no such receipt, and neither has a test token."""
        others = [
            text
            for text, token in list(self._model.tokens.items())
            if (token.account is not self.account or token.is_test) and token.is_valid.now
        ]
        answer = client.receipt(self._chance.choice(others), due.request_id)
        self.answers += 1
        if answer.body["code"] not in (401, 404):
            raise MismatchError(f"the receipt of another account: {answer.body}")

    def _tokens(self, *, is_test: bool) -> list[str]:
        return [
            text
            for text, token in list(self._model.tokens.items())
            if token.account is self.account and token.is_test == is_test and token.is_valid.now
        ]
