"""What an operator changes meanwhile: prices, permissions, tokens, consents, closed operations."""

from random import Random

from tests.model.calls import SHOPS, USERS
from tests.model.commands import Operator
from tests.model.expected.accounts import Account
from tests.model.expected.deciding import Permission
from tests.model.expected.model import OPERATIONS, Model
from tests.model.expected.outcomes import Consent

SCOPES = {"shop": "orders", "user": "promotion"}


class Changer:
    """Makes one random change after the other."""

    def __init__(self, model: Model, operator: Operator, seed: str) -> None:
        self._model = model
        self._operator = operator
        self._chance = Random(seed)

    def step(self) -> None:
        """Most of what is taken away is given back soon: calls that succeed say more."""
        for operation, history in self._model.is_closed.items():
            if history.now:
                with history.changing_to(False):
                    self._operator.open_operation(operation)
                return
        changes = (self._price, self._permission, self._token, self._consent, self._closing)
        self._chance.choice(changes)()

    def _closing(self) -> None:
        operation = self._chance.choice(OPERATIONS)
        with self._model.is_closed[operation].changing_to(True):
            self._operator.close_operation(operation)

    def _price(self) -> None:
        operation, price = self._chance.choice(OPERATIONS), self._chance.choice((0, 1, 1, 2, 3))
        with self._model.prices[operation].changing_to(price):
            self._operator.set_price(operation, price)

    def _permission(self) -> None:
        """Gives one, or takes one for a while."""
        account, operation = self._account(), self._chance.choice(OPERATIONS)
        history = self._model.permissions[account.id, operation]
        if history.now is not None and self._chance.random() < 0.15:
            with history.changing_to(None):
                self._operator.forbid(account.name, operation)
        else:
            price = self._chance.choice((None, None, 0, 1, 4))
            with history.changing_to(Permission(price)):
                self._operator.permit(account.name, operation, price)

    def _token(self) -> None:
        """Another one, and then an end to the first."""
        account = self._account()
        text, token_id = self._operator.issue_token(account.name)
        self._model.add_token(text, token_id, account, is_test=False)
        own = [
            (text, token.is_valid)
            for text, token in self._model.tokens.items()
            if token.account is account and not token.is_test and token.is_valid.now
        ]
        old, is_valid = own[0]
        with is_valid.changing_to(False):
            self._operator.revoke_token(old)

    def _consent(self) -> None:
        """Of any but the first shop and the first user."""
        kind, owner_id = self._chance.choice(
            [*(("shop", each) for each in SHOPS[1:]), *(("user", each) for each in USERS[1:])]
        )
        account = self._account()
        history = self._model.consents[account.id, kind, owner_id]
        consent = history.now
        if consent is None:
            self._give_consent(account, kind, owner_id)
        elif self._chance.random() < 0.4:
            with history.changing_to(None):
                self._operator.revoke_consent(consent.id)

    def _give_consent(self, account: Account, kind: str, owner_id: str) -> None:
        consent = Consent(kind, owner_id)
        with self._model.consents[account.id, kind, owner_id].changing_to(consent):
            consent.id = self._operator.give_consent(account.name, kind, owner_id, SCOPES[kind])

    def _account(self) -> Account:
        return self._chance.choice(self._model.accounts)
