"""`tollway-call`: sign in once, call an operation, save all records of a list, print labels, watch
a balance."""

import argparse
import base64
import getpass
import inspect
import json
import os
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, NoReturn, Optional

from tollway_client import __version__
from tollway_client._drivers import UnusableEnvironmentError
from tollway_client._options import Parser, add_options, seconds
from tollway_client.client import Client
from tollway_client.errors import (
    NotAuthorizedError,
    OperationClosedError,
    OwnerUnknownError,
    PermissionMissingError,
    RefusedError,
    TollwayError,
    TransportError,
)
from tollway_client.exporting import KINDS, download, export
from tollway_client.types import CouponRecord, OrderEntry

_OPERATIONS = ("product_analysis", "coupon_claims", "promotion_material", "issue_waybill", "orders")
_LISTS = {
    "orders": ("iter_orders", OrderEntry),
    "claims": ("iter_coupon_claims", CouponRecord),
}
# What makes an export, what reads its file, and the field that names a record in it.
_EXPORTS = {
    "orders": ("orders_export", "iter_orders_export", "order_sn"),
    "claims": ("coupon_claims_export", "iter_coupon_claims_export", "couponCode"),
}
# The gateway keeps exports and keys for a day; an hour less, so that the file can still be read.
_EXPORT_KEPT_S = 23 * 3600


class _UsageError(Exception):
    """The text is one sentence for the person at the terminal."""


def main(arguments: Optional[Sequence[str]] = None) -> None:
    given = _parser().parse_args(arguments)
    try:
        given.run(given)
        sys.stdout.flush()
    except NotAuthorizedError as error:
        _fail(f"{error}\nThe owner can approve here: {error.authorize_url}")
    except TransportError as error:
        _fail(f"{error}\nCheck the network, and the address: tollway-call sign-in URL sets it.")
    except BrokenPipeError:
        # The reader of the output has closed it. What is still buffered is dropped, or the
        # interpreter would complain about it when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except UnicodeEncodeError:
        _fail("A text cannot be encoded: give valid UTF-8.")
    except (TollwayError, _UsageError, OSError) as error:
        _fail(str(error))
    except KeyboardInterrupt:
        sys.exit(130)


def _fail(text: str) -> NoReturn:
    print(f"Error: {text}", file=sys.stderr)
    sys.exit(1)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "tollway-call",
        description="Call a Tollway gateway.",
        epilog="Begin with: tollway-call sign-in https://gateway.example. "
        "What a command takes: tollway-call COMMAND --help.",
    )
    parser.add_argument("--version", action="version", version=f"tollway-call {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    sign_in = commands.add_parser(
        "sign-in",
        help="remember a gateway and a token",
        description="Asks for a token, or reads it from standard input, and remembers it.",
    )
    sign_in.add_argument(
        "url", metavar="URL", help="where the gateway is, such as https://gateway.example"
    )
    sign_in.set_defaults(run=_sign_in)
    commands.add_parser("sign-out", help="forget them").set_defaults(run=_sign_out)
    for name in _OPERATIONS:
        _add_call(commands, name.replace("_", "-"), name)
    _add_export(commands)
    _add_download(commands)
    label = commands.add_parser("label", help="save the labels of waybills, free of charge")
    label.add_argument(
        "file", type=Path, metavar="FILE", help="a file that ends in .pdf, .png or .zpl"
    )
    label.add_argument(
        "object_id",
        nargs="+",
        metavar="OBJECT_ID",
        help="the objectId of a waybill; several make one PDF",
    )
    _add_replace(label)
    label.set_defaults(run=_label)
    balance = commands.add_parser("balance", help="what is left, and what calls cost")
    balance.add_argument(
        "--watch", type=seconds, metavar="SECONDS", help="print it again and again"
    )
    balance.set_defaults(run=_balance)
    receipt = commands.add_parser("receipt", help="what one call cost, and why")
    receipt.add_argument(
        "request_id", metavar="REQUEST_ID", help="the X-Request-Id of the call's answer"
    )
    receipt.set_defaults(run=_receipt)
    return parser


def _add_call(commands: Any, command: str, method: str) -> None:
    function = getattr(Client, method)
    first_sentence = (inspect.getdoc(function) or "").split(". ")[0].split("\n")[0].rstrip(".")
    parser = commands.add_parser(command, help=first_sentence)
    add_options(parser, function)
    parser.set_defaults(run=lambda given: _call(given, method))


def _add_export(commands: Any) -> None:
    parser = commands.add_parser("export", help="save all records of a list in a file")
    lists = parser.add_subparsers(required=True, metavar="LIST")
    for name, (method, kind) in _LISTS.items():
        one = lists.add_parser(name, help=f"all {name}, each once, also while others arrive")
        kinds = ", ".join(KINDS)
        one.add_argument(
            "file", type=Path, metavar="FILE", help=f"a file that ends in one of {kinds}"
        )
        _add_replace(one)
        add_options(one, getattr(Client, method))
        one.set_defaults(run=lambda given, of=(method, kind): _export(given, *of))


def _add_download(commands: Any) -> None:
    parser = commands.add_parser(
        "download", help="pay for an export, and save its file; started again, it goes on"
    )
    lists = parser.add_subparsers(required=True, metavar="LIST")
    for name, (method, _, _) in _EXPORTS.items():
        one = lists.add_parser(name, help=f"all {name} of a window, paid by started hundreds")
        one.add_argument("file", type=Path, metavar="FILE", help="a file that ends in .jsonl")
        one.add_argument("--dry-run", action="store_true", help="only print what it would cost")
        _add_replace(one)
        add_options(one, getattr(Client, method))
        one.set_defaults(run=lambda given, name=name: _download(given, name))


def _add_replace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--replace", action="store_true", help="replace a file that is there")


def _only(given: argparse.Namespace) -> dict[str, Any]:
    """The parameters of the call: what was given, but for the file and the command."""
    return {
        name: value
        for name, value in vars(given).items()
        if name not in ("run", "file", "watch", "dry_run", "replace") and value is not None
    }


def _call(given: argparse.Namespace, method: str) -> None:
    with _client() as client:
        _print(getattr(client, method)(**_only(given)))


def _receipt(given: argparse.Namespace) -> None:
    with _client() as client:
        _print(client.account.receipt(request_id=given.request_id))


_PAID_AGAIN = "pay for it again and replace it"


def _refuse_existing(given: argparse.Namespace, doing: str) -> None:
    if not given.file.parent.is_dir():
        raise _UsageError(f"The folder of {given.file} does not exist: make it first.")
    if given.file.exists() and not given.replace:
        raise _UsageError(
            f"{given.file} exists already: name another file, or add --replace to {doing}."
        )


def _export(given: argparse.Namespace, method: str, kind: type) -> None:
    _refuse_existing(given, _PAID_AGAIN)
    with _client() as client:
        records: Iterator[Any] = getattr(client, method)(**_only(given))
        try:
            count = export(_counted(records), given.file, kind)
        except ValueError as error:
            raise _UsageError(str(error)) from None
    print(f"\r{_number(count, 'record')} in {given.file}.", file=sys.stderr)


def _download(given: argparse.Namespace, name: str) -> None:
    method, loop, key = _EXPORTS[name]
    file: Path = given.file
    if file.suffix != ".jsonl":
        raise _UsageError("The file's name must end in .jsonl.")
    parameters = _only(given)
    with _client() as client:
        if given.dry_run:
            cost = client.cost_of(method, **parameters)
            print(f"It would cost {_amount(cost.cost, cost.unit)}; {cost.left:,} left.")
            return
        begun = file.with_name(f"{file.name}.export")
        is_new = not begun.exists()
        if is_new:
            _refuse_existing(given, _PAID_AGAIN)
        # With the same key the same export is answered, which was paid once.
        key_of_export = _key_of(begun, parameters)
        try:
            made = getattr(client, method)(**parameters, idempotency_key=key_of_export)
        except RefusedError as error:
            if is_new and not error.is_retryable:
                # Nothing was paid, and there is nothing to be finished.
                begun.unlink()
            raise
        paid = _number(made.withholding_money, "credit")
        print(f"{_number(made.records, 'record')}, {paid} paid.", file=sys.stderr)
        of = {"export_id": made.export_id}
        if "owner_id" in parameters:
            of["owner_id"] = parameters["owner_id"]
        count = download(
            lambda after: _counted(getattr(client, loop)(**of, after=after)), file, key
        )
    begun.unlink()
    print(f"\r{_number(count, 'record')} in {file}.", file=sys.stderr)


def _key_of(begun: Path, parameters: "dict[str, Any]") -> str:
    """The key of the export that was begun before, or else a new one."""
    if begun.exists():
        try:
            its_parameters, key, at_s = json.loads(begun.read_text(encoding="utf-8"))
        except ValueError:
            raise _UsageError(f"{begun} is damaged: delete it to pay for a new export.") from None
        if its_parameters != parameters:
            raise _UsageError(f"{begun} is of another export: finish that one, or delete it.")
        if time.time() >= at_s + _EXPORT_KEPT_S:
            its_file = begun.with_suffix("")
            raise _UsageError(
                f"The export of {its_file} is older than a day: "
                f"delete {begun} to pay for a new one."
            )
        return str(key)
    key = str(uuid.uuid4())
    # Another export is of another moment: nothing of a former one's file may be in it.
    begun.with_suffix(".part").unlink(missing_ok=True)
    begun.write_text(json.dumps([parameters, key, time.time()]), encoding="utf-8")
    return key


def _label(given: argparse.Namespace) -> None:
    file: Path = given.file
    kind = file.suffix.lstrip(".")
    if kind not in ("pdf", "png", "zpl"):
        raise _UsageError("The file's name must end in .pdf, .png or .zpl.")
    if len(given.object_id) > 1 and kind != "pdf":
        raise _UsageError("Several labels go into one PDF: name the file so.")
    _refuse_existing(given, "replace it")
    with _client() as client:
        if len(given.object_id) == 1:
            content = client.account.waybills_label(
                object_id=given.object_id[0], format=kind
            ).content
        else:
            content = client.account.waybills_labels(object_ids=given.object_id).content
    file.write_bytes(base64.b64decode(content))
    print(f"{_number(len(given.object_id), 'label')} in {file}.", file=sys.stderr)


def _number(count: int, of: str) -> str:
    return f"{count:,} {of}" if count == 1 else f"{count:,} {of}s"


def _amount(count: int, unit: str) -> str:
    """A number of credits, or of calls, which are those of an operation."""
    return _number(count, "credit" if unit == "credits" else "call")


def _counted(records: Iterator[Any]) -> Iterator[Any]:
    for number, record in enumerate(records, start=1):
        if number % 1000 == 0 and sys.stderr.isatty():
            print(f"\r{number:,} records …", end="", file=sys.stderr)
        yield record


def _balance(given: argparse.Namespace) -> None:
    with _client() as client:
        while True:
            state = client.account.balance()
            left = ", ".join(f"{each.unit} {each.amount:,}" for each in state.balances)
            print(f"{time.strftime('%H:%M:%S')}  {state.name}: {left or 'nothing'}", flush=True)
            if given.watch is None:
                break
            time.sleep(max(given.watch, 1.0))
    for one in state.operations:
        closed = "" if one.is_open else " (closed)"
        print(f"  {one.operation} costs {_amount(one.price, one.unit)}{closed}")


def _print(answer: Any) -> None:
    values = asdict(answer) if is_dataclass(answer) and not isinstance(answer, type) else answer
    values.pop("meta", None)
    text = json.dumps(values, ensure_ascii=False, indent=2)
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        # The call may have been charged: also a terminal that cannot show it gets the answer.
        text = json.dumps(values, indent=2)
    print(text)


def _config() -> Path:
    try:
        base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    except RuntimeError:
        raise _UsageError("You have no home folder: set XDG_CONFIG_HOME to one.") from None
    return Path(base) / "tollway-call.json"


def _language() -> str:
    """The language of the terminal, in which the gateway says what is wrong."""
    settings = (os.environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return "zh" if next(filter(None, settings), "").startswith("zh") else "en"


def _sign_in(given: argparse.Namespace) -> None:
    if sys.stdin.isatty():
        token = getpass.getpass("Token: ").strip()
    else:
        token = sys.stdin.readline().strip()
    try:
        client = Client(token, given.url, language=_language())
    except ValueError as error:
        raise _UsageError(str(error)) from None
    with client:
        who = _checked(client, token)
    path = _config()
    path.parent.mkdir(parents=True, exist_ok=True)
    # Readable by its owner alone from the first moment, also if it was there already.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    path.chmod(0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"url": given.url, "token": token}, file)
    print(f"You are signed in to {given.url} {who}")


def _checked(client: Client, token: str) -> str:
    """Who a token belongs to, as the end of a sentence; raises if it cannot be used from here."""
    if not token.startswith("tw_test_"):
        return f"as {client.account.balance().name}."
    # The account API takes live tokens alone. These answers concern the call, not the token; but
    # one that is refused from this address is refused for every call.
    try:
        client.cost_of("orders", owner_id="0")
    except (OwnerUnknownError, NotAuthorizedError, OperationClosedError):
        pass
    except PermissionMissingError as error:
        if error.reason == "TOKEN_NOT_FROM_HERE":
            raise
    return "with a test token. Its calls go to the sandbox and cost nothing."


def _sign_out(_given: argparse.Namespace) -> None:
    _config().unlink(missing_ok=True)
    print("The token is forgotten.")


def _client() -> Client:
    path = _config()
    if not path.exists():
        raise _UsageError("Sign in first: tollway-call sign-in URL")
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        return Client(known["token"], known["url"], language=_language())
    except UnusableEnvironmentError as error:
        raise _UsageError(str(error)) from None
    except (ValueError, KeyError, TypeError):
        raise _UsageError(f"{path} is damaged. Sign in again: tollway-call sign-in URL") from None


if __name__ == "__main__":
    main()
