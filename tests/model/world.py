"""The small world that a campaign begins with: accounts, owners, consents, a source of pushes.

Made once, by commands. Every campaign begins with a copy of it.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.model.calls import SHOPS, USERS
from tests.model.changing import SCOPES
from tests.model.commands import Operator
from tests.model.expected.accounts import Account
from tests.model.expected.deciding import Permission
from tests.model.expected.history import History
from tests.model.expected.model import OPERATIONS, Model
from tests.model.expected.outcomes import Consent
from tests.model.feeding import SOURCE
from tests.support.stores import Store

_OWNERS = (*(("shop", each) for each in SHOPS), *(("user", each) for each in USERS))
# The first account has only the consents that are never taken back.
_LASTING = (_OWNERS[0], _OWNERS[len(SHOPS)])


class _Made(NamedTuple):
    """What commands said of one account."""

    id: str
    name: str
    token: tuple[str, str]
    test_token: tuple[str, str] | None
    consents: dict[tuple[str, str], str]


class World:
    """A database that no gateway serves yet, and what is in it."""

    def __init__(self, folder: Path, accounts: int) -> None:
        self._store = Store(folder / "world.db")
        operator = Operator(self._store)
        # Most of this is the start of commands, and the hashing of passwords.
        with ThreadPoolExecutor() as pool:
            list(pool.map(operator.add_owner, *zip(*_OWNERS, strict=True)))
            self._accounts = list(pool.map(partial(_make_account, operator), range(accounts)))
        self.secret = operator.add_source(SOURCE)

    def copied_to(self, path: Path) -> Store:
        return self._store.copied_to(path)

    def model(self, seen_after_s: float) -> Model:
        model = Model(seen_after_s)
        for kind, owner_id in _OWNERS:
            model.owners[kind, owner_id] = History(True)
        for made in self._accounts:
            _add_to(model, made, seen_after_s)
        return model


def _make_account(operator: Operator, number: int) -> _Made:
    name = f"caller {number}"
    account_id = operator.open_account(name)
    for operation in OPERATIONS:
        operator.permit(name, operation, None)
    consents = {
        (kind, owner_id): operator.give_consent(name, kind, owner_id, SCOPES[kind])
        for kind, owner_id in (_OWNERS if number else _LASTING)
    }
    test_token = None if number else operator.issue_token(name, is_test=True)
    return _Made(account_id, name, operator.issue_token(name), test_token, consents)


def _add_to(model: Model, made: _Made, seen_after_s: float) -> None:
    account = Account(made.id, made.name)
    model.accounts.append(account)
    model.add_token(*made.token, account, is_test=False)
    if made.test_token is not None:
        model.add_token(*made.test_token, account, is_test=True)
    for operation in OPERATIONS:
        permitted: Permission | None = Permission(None)
        model.permissions[account.id, operation] = History(permitted, seen_after_s)
    for (kind, owner_id), consent_id in made.consents.items():
        consent: Consent | None = Consent(kind, owner_id, consent_id)
        model.consents[account.id, kind, owner_id] = History(consent, seen_after_s)
