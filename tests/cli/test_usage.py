"""A command line that cannot be understood: the argument, what is wrong with it, and what to do."""

import re

import pytest

from tests.cli.conftest import Command
from tests.cli.test_errors import assert_one_sentence
from tests.support.stores import Store

_NUMBER = "AMOUNT must be a whole number, and not"
_OPERATIONS = "product_analysis"

WRONG_USAGE = (
    ("--nothing", "There is no option --nothing: see `tollway --help`."),
    ("--json account list", "--json goes after the command: see `tollway --help`."),
    ("account --database sqlite:///a.db list", "--database goes after the command: see"),
    ("accont", "There is no command accont. Did you mean account?"),
    ("waybill lable", "There is no command lable. Did you mean label?"),
    ("ledger everything", "There is no command everything: see `tollway ledger --help`."),
    ("credit add acme", "AMOUNT is missing: see `tollway credit add --help`."),
    ("shop add 1 name", "--login is missing: see `tollway shop add --help`."),
    ("credit add acme ten", f"{_NUMBER} ten: see `tollway credit add --help`."),
    ("credit add acme 1,000", f"{_NUMBER} 1,000: see"),
    ("credit add acme 1.5", f"{_NUMBER} 1.5: see"),
    ("credit add acme -1x", f"{_NUMBER} -1x: see"),
    ("credit add -5 acme", f"{_NUMBER} acme: see"),
    ("second-factor reset", "WHO is missing, one of operator, member, owner: see"),
    ("second-factor reset person wang", "WHO must be one of operator, member, owner, and not pers"),
    ("keys accept file", "FILE must be one of key_file, secret_file, and not file: see"),
    ("credit add acme 1 --nothing", "There is no option --nothing: see"),
    ("credit add acme 1 --operation orders", "There is no option --operation: see"),
    ("credit add acme 1 --call orders", "There is no option --call. Did you mean --calls?"),
    ("credit add acme -1 --nothing", "There is no option --nothing: see"),
    ("credit add acme --nte slip -1", "There is no option --nte. Did you mean --note?"),
    ("credit add acme 5 -5", "Nothing is expected after AMOUNT: leave out -5"),
    ("account show -5", "There is no option -5: see"),
    (
        "account open Acme Corp",
        "after NAME: leave out Corp, or put a text with spaces in quotes: see",
    ),
    ("account list acme", "No argument is expected: leave out acme: see `tollway account list"),
    ("credit add acme 1 --note", "--note needs a value: see `tollway credit add --help`."),
    ("shop add 1 name --login --kind user", "--login needs a value: see `tollway shop add --help`"),
    ("account list --json=1", "--json takes no value: see `tollway account list --help`."),
    (
        f"permission add acme {_OPERATIONS} --rate 0",
        "--rate must be a whole number from 1 to 1,000",
    ),
    (f"permission add acme {_OPERATIONS} --price -1", "--price must be a whole number from 0 to"),
    (f"price set {_OPERATIONS} 99999999999999999999", "PRICE must be a whole number from 0 to 1,0"),
    (
        f"price set {_OPERATIONS} -1",
        "PRICE must be a whole number from 0 to 1,000,000,000,000, and",
    ),
    ("token issue acme --expires-days 0", "--expires-days must be a whole number from 1 to 36,500"),
    ("mcp http://127.0.0.1:1 --budget -1", "--budget must be a whole number from 0 on, and not -1"),
    ("ledger show", "either an account or, with --request, one call"),
    ("ledger show acme --request 1", "either an account or, with --request, one call"),
    ("ledger show --request 1 --unit credits", "--unit goes with an account"),
    ("ledger show acme --limit 0", "--limit must be a whole number from 1 to 10,000, and not 0"),
    ("reconcile --carrier YTO", "--carrier goes with --decide"),
    ("carrier routes YTO --replace", "--replace and --rejects go with a FILE"),
    ("mcp http://127.0.0.1:1 --database sqlite:///a.db", "There is no option --database"),
)


# No command that is not understood comes to its database, whichever that is.
@pytest.mark.sqlite
@pytest.mark.parametrize(("line", "part"), WRONG_USAGE)
def test_wrong_usage_ends_with_status_2(tollway: Command, line: str, part: str) -> None:
    assert_one_sentence(tollway(*line.split()), 2, part)


@pytest.mark.sqlite
@pytest.mark.parametrize("blank", ["", " "])
@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("account show BLANK", "ACCOUNT"),
        ("operator link BLANK", "LOGIN"),
        ("account list --database BLANK", "--database"),
        ("token issue acme --from BLANK", "--from"),
        ("token issue acme --operation orders --operation BLANK", "--operation"),
        ("credit add acme 5 --calls BLANK", "--calls"),
        ("credit add acme BLANK", "AMOUNT"),
        ("ledger export acme --out BLANK", "--out"),
        ("restore BLANK", "BACKUP"),
        ("trail show --of BLANK", "--of"),
    ],
)
def test_a_blank_value_is_no_value(
    tollway: Command, ledger_store: Store, line: str, named: str, blank: str
) -> None:
    tollway("account", "open", "acme")
    answer = tollway(*(blank if part == "BLANK" else part for part in line.split()))
    assert_one_sentence(answer, 2, f"{named} is empty: see `tollway ")


def test_a_text_that_says_something_may_be_blank(tollway: Command, ledger_store: Store) -> None:
    tollway("account", "open", "acme")
    assert tollway("credit", "add", "acme", "5", "--note", "").status == 0
    assert tollway("token", "issue", "acme", "--label", "").status == 0


def test_a_number_may_be_negative_or_follow_spaces(tollway: Command, ledger_store: Store) -> None:
    tollway("account", "open", "acme")
    tollway("credit", "add", "acme", " 5")
    assert tollway("credit", "add", "acme", "-2", "--json").json["balance_after"] == 3
    noted = tollway("credit", "add", "acme", "--note", "-1", "-2", "--json").json
    assert (noted["note"], noted["balance_after"]) == ("-1", 1)


@pytest.mark.sqlite
def test_what_would_control_the_terminal_is_not_repeated_to_it(
    tollway: Command, ledger_store: Store
) -> None:
    for text in ("a\x1b[2Jb", "a\nb", "a\udcffb"):
        for line in (("account", "show", text), ("account", "list", text), ("account", text)):
            answer = tollway(*line)
            assert answer.err.count("\n") == 1 and "\x1b" not in answer.err


@pytest.mark.sqlite
@pytest.mark.parametrize("command", ["token issue", "ledger show", "consent grant", "credit add"])
def test_the_help_shows_what_is_taken_in_plain_words(tollway: Command, command: str) -> None:
    shown = " ".join(tollway(*command.split(), "--help").out.replace("│", " ").split())
    assert not re.search(r"<\w|<=|\[\[", shown)
    for part in {
        "token issue": ("--expires-days NUMBER [1 to 36,500]", "--label TEXT", "--test A sandbox"),
        "ledger show": ("[OPTIONS] [ACCOUNT]", "--limit NUMBER [1 to 10,000]"),
        "consent grant": ("[OPTIONS] ACCOUNT KIND ID SCOPE", "KIND shop|user", "SCOPE What"),
        "credit add": ("AMOUNT NUMBER How many", "--calls OPERATION Add calls"),
    }[command]:
        assert part in shown
