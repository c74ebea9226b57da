"""The whole gateway: everything that was done to it, and what a call may be answered with now."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from tests.model.expected.accounts import Account, Between, Kept
from tests.model.expected.claims import Claims
from tests.model.expected.deciding import OWNERS, Decision, Facts, Permission
from tests.model.expected.figures import Figures
from tests.model.expected.history import History, Span
from tests.model.expected.material import Materials
from tests.model.expected.orders import Shop
from tests.model.expected.outcomes import Ask, Consent, Outcome, Receipt, receipt_of, refused
from tests.model.expected.refusals import RefusedError
from tests.model.expected.requests import read_parameters

PRICES = {"product_analysis": 1, "coupon_claims": 1, "promotion_material": 1, "orders": 1}
OPERATIONS = tuple(PRICES)
_NOTHING: History[Any] = History(None)


class Token(NamedTuple):
    """A token of an account. One for the sandbox costs nothing and sees made-up data."""

    id: str
    account: Account
    is_test: bool
    is_valid: History[bool]


class Model:
    """The gateway. `seen_after_s` is how long it may take to see what a command has changed."""

    def __init__(self, seen_after_s: float) -> None:
        def changed(first: Any) -> History[Any]:
            return History(first, seen_after_s)

        self.accounts: list[Account] = []
        self.tokens: dict[str, Token] = {}
        self.is_closed = {name: changed(False) for name in OPERATIONS}
        self.prices = {name: changed(price) for name, price in PRICES.items()}
        # By account and operation.
        self.permissions: dict[tuple[str, str], History[Permission | None]]
        self.permissions = defaultdict(lambda: changed(None))
        # By kind and id.
        self.owners: dict[tuple[str, str], History[bool]]
        self.owners = defaultdict(lambda: changed(False))
        # By account, and kind and id of the owner: the consent in force.
        self.consents: dict[tuple[str, str, str], History[Consent | None]]
        self.consents = defaultdict(lambda: changed(None))
        self.shops: dict[str, History[Shop]] = defaultdict(lambda: History(Shop({})))
        self.claims = History(Claims({}))
        self.figures: History[Figures] = changed(Figures({}))
        self.materials = History(Materials({}))
        self._seen_after_s = seen_after_s

    def add_token(self, text: str, token_id: str, account: Account, *, is_test: bool) -> None:
        valid = History(True, self._seen_after_s)
        self.tokens[text] = Token(token_id, account, is_test, valid)

    def histories(self) -> list[History[Any]]:
        """All that change often."""
        return [*self.shops.values(), self.claims, self.figures, self.materials]

    def outcomes(self, ask: Ask, span: Span, at: Between) -> Iterator[Outcome]:
        """All that a call may be answered with: one for each moment of its span that it may see."""
        if ask.fault is not None:
            yield refused(404, ask.fault)
            return
        token = self.tokens.get(ask.token or "")
        if token is None:
            yield refused(401, "CREDENTIAL_INVALID")
            return
        asked = _read(ask)
        histories = (
            token.is_valid,
            self.is_closed[ask.operation],
            self.permissions[token.account.id, ask.operation],
            self.prices[ask.operation],
            *self._histories_of(ask.operation, token.account, asked),
        )
        decision = Decision(ask, asked, token.account, is_test=token.is_test)
        for values in product(*(each.within(span) for each in histories)):
            yield from decision.outcomes(Facts(*values), at)

    def _histories_of(
        self, operation: str, account: Account, asked: Mapping[str, Any] | RefusedError
    ) -> tuple[History[Any], History[Any], History[Any]]:
        """Those of the owner, its consent and the data that is asked for."""
        if isinstance(asked, RefusedError):
            return _NOTHING, _NOTHING, _NOTHING
        if operation == "product_analysis":
            return _NOTHING, _NOTHING, self.figures
        if operation == "coupon_claims":
            return _NOTHING, _NOTHING, self.claims
        kind, parameter = OWNERS[operation]
        owner_id = str(asked[parameter])
        data = self.shops[owner_id] if operation == "orders" else self.materials
        return self.owners[kind, owner_id], self.consents[account.id, kind, owner_id], data

    def learn(
        self, ask: Ask, outcomes: Sequence[Outcome], request_id: str, at: Between
    ) -> list[Receipt]:
        """Takes note of what a call came to: any of these outcomes, which cost the same and have
        the same answer. The receipts of which it must have one; none if it has none."""
        token, outcome = self.tokens.get(ask.token or ""), outcomes[0]
        if token is None or token.is_test or outcome.code in (401, 404):
            return []
        account, entry = token.account, None
        if outcome.charged:
            entry = account.charge(ask.operation, outcome.charged, request_id, token.id, at)
        if ask.key is not None and outcome.code == 0 and outcome.replay_of is None:
            asked = _read(ask)
            assert outcome.data is not None
            assert not isinstance(asked, RefusedError)
            kept = Kept(ask.operation, ask.parameters, asked, outcome.data, request_id)
            account.keep(ask.key, kept)
        return [
            receipt_of(account, ask.operation, each, request_id, entry, at) for each in outcomes
        ]


def _read(ask: Ask) -> dict[str, Any] | RefusedError:
    try:
        return read_parameters(ask.operation, ask.parameters)
    except RefusedError as error:
        return error
