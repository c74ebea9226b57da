"""Controls: the tests of attacks fail on a gateway that stops none of them: `support/broken.py`."""

from collections.abc import Callable, Iterator
from datetime import date

import pytest

from tests.intake import test_push, test_spoken_for
from tests.pipeline import test_receipts_asking, test_smuggling
from tests.support.broken import BrokenGateway, naive_server
from tests.support.browsers import Browser
from tests.support.consent import new_asker, new_person
from tests.support.ledger import RUNTIME, new_caller
from tests.support.orders import sealer_of
from tests.support.pushes import EVERYONE, SOURCE
from tests.support.stores import Store
from tests.web import test_consent_journey
from tollway.intake.sources import add_source

pytestmark = pytest.mark.sqlite


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Iterator[BrokenGateway]:
    gateway = BrokenGateway(Store(tmp_path_factory.mktemp("broken") / "tollway.db"))
    yield gateway
    assert gateway.stop() == 0


@pytest.fixture
def browser(broken: BrokenGateway) -> Iterator[Browser]:
    opened = Browser(broken)
    yield opened
    opened.client.close()


def _noticed(test: Callable[..., None], *arguments: object) -> None:
    with pytest.raises(AssertionError):
        test(*arguments)


def test_receipts_of_others(broken: BrokenGateway, today: date) -> None:
    test = test_receipts_asking.test_another_accounts_id_is_answered_like_an_unknown_one
    _noticed(test, broken, broken.store, today)


def test_signatures_of_pushes(broken: BrokenGateway) -> None:
    store = broken.store
    secret = store.do(
        lambda database: add_source(database, sealer_of(store), SOURCE, EVERYONE, RUNTIME)
    ).secret
    test = test_push.test_401_is_the_same_for_every_push_that_cannot_be_trusted
    _noticed(test, broken, store, secret)


def test_records_of_other_shops(broken: BrokenGateway) -> None:
    test = test_spoken_for.test_a_source_can_neither_overwrite_nor_add_orders_of_another_shop
    _noticed(test, broken.store, broken)


def test_names_on_pages(broken: BrokenGateway, browser: Browser) -> None:
    test = test_consent_journey.test_hostile_names_are_shown_and_never_run
    _noticed(test, broken, broken.store, browser)


def test_forms_of_other_sites(broken: BrokenGateway, browser: Browser) -> None:
    store = broken.store
    test = test_consent_journey.test_a_form_without_its_token_is_refused
    _noticed(test, broken, store, new_asker(store), new_person(store), browser)


def test_a_server_that_sees_a_request_behind_a_doubtful_body(store: Store) -> None:
    test = test_smuggling.test_what_stands_behind_a_doubtful_body_is_never_a_second_request
    honest = new_caller(store)
    with naive_server() as server:
        _noticed(test, server, store, honest, "/", ["Content-Length: 5", "Content-Length: 6"], b"")
