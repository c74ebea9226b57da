"""Few examples of the books' machine, and proof that it would notice; many run in tests/torture."""

from tests.ledger.books_campaign import run_campaign


def test_the_books_are_as_they_should_be_whatever_happens() -> None:
    run_campaign(examples=60)
