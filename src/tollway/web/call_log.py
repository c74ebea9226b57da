"""The log of calls as a table with filters, for operators and callers alike."""

from collections.abc import Mapping, Sequence

from tollway.contract.reasons import Reason
from tollway.contract.receipt import FreeReason
from tollway.ledger.accounts import names_of
from tollway.ledger.request_log import (
    ANY_REFUSAL,
    SCANNED_MAX,
    CallFilter,
    LoggedCall,
    LogPage,
    log_page,
)
from tollway.ledger.request_search import search_page
from tollway.operations.catalogue import OPERATIONS, title_of
from tollway.web.area import PAGE_ROWS, Context, address
from tollway.web.blocks import Cell, Empty, Field, Filters, Link, Table
from tollway.web.lists import TIMES, before_request, moment_ms, moment_problem, period_fields
from tollway.web.wording import amount, grouped, named_reason, plain_number, sentence, titles

_FILTERS = ("operation", "code", "reason", "since", "until", "amount", "shop", "order")
# The numeric filters, and how many digits each can have.
_NUMBERS = {"code": 5, "amount": 18}
_OUTCOMES = {
    "charged": ("good", sentence("charged")),
    "held": ("soon", sentence("held")),
    "free": ("good", sentence("free")),
    "undone": ("soon", sentence("not done")),
    "released": ("soon", sentence("not done")),
    "refused": ("bad", sentence("refused")),
    "unknown": ("", sentence("succeeded, charge not stored any more")),
}


def outcome_cell(context: Context, call: LoggedCall) -> Cell:
    # A call that a carrier refused has an answer, but is free.
    is_undone = call.reason == FreeReason.NOT_DONE
    tone, text = _OUTCOMES["undone" if is_undone else call.outcome]
    return Cell(context.say(text), tone=tone)


def wanted_calls(context: Context, account_id: str) -> CallFilter:
    """The filter in the address; a value that cannot be read filters nothing."""
    operation, reason = context.query("operation"), context.query("reason")
    return CallFilter(
        account_id,
        operation,
        _number(context, "code"),
        reason.upper(),
        moment_ms(context, "since") or 0,
        moment_ms(context, "until"),
        _number(context, "amount"),
        context.query("shop"),
        context.query("order"),
    )


def _number(context: Context, name: str) -> int | None:
    return plain_number(context.query(name).replace(",", ""), _NUMBERS[name])


def _problem(context: Context, name: str) -> str:
    """What is wrong with a field of the filter."""
    if not context.query(name):
        return ""
    if name in _NUMBERS:
        wrong = context.say("This is no whole number: it filters nothing.")
        return wrong if _number(context, name) is None else ""
    return moment_problem(context, name)


def has_unread_filter(context: Context) -> bool:
    """Whether the address has a filter that cannot be read; the page says which."""
    return any(_problem(context, name) for name in (*_NUMBERS, *TIMES))


async def wanted_page(
    context: Context, wanted: CallFilter, units: Sequence[str], size: int, before: str
) -> LogPage:
    if wanted.shop or wanted.order_sn:
        return await search_page(context.database, wanted, size, before)
    return await log_page(context.database, wanted, units, size, before)


def chosen_filters(context: Context) -> dict[str, str]:
    """The filters in the address, to keep in the addresses of other pages."""
    return {name: context.query(name) for name in _FILTERS}


async def call_log(
    context: Context,
    path: str,
    account_id: str,
    units: Sequence[str],
    *,
    kept: Mapping[str, str],
    links: Sequence[Link] = (),
) -> Table:
    """The calls of one account, or of all."""
    say, wanted = context.say, wanted_calls(context, account_id)
    before = before_request(context)
    page = await wanted_page(context, wanted, units, PAGE_ROWS, before)
    names: Mapping[str, str] = {}
    if not account_id:
        names = await names_of(context.database, (each.account_id for each in page.calls))
    chosen = chosen_filters(context)
    columns = [say("When"), say("Outcome"), say("Operation")]
    if not account_id:
        columns.append(say("Account"))
    columns += titles(say, "Code and reason", "Charged", "Request")
    older = address(path, **kept, **chosen, before=page.before) if page.before else ""
    return Table(
        columns,
        [_row(context, call, names, is_mixed=not account_id) for call in page.calls],
        _nothing(context, page, is_filtered=any(chosen.values())),
        filters=_filters(context, path, chosen, kept),
        links=links,
        note=_reach(context, wanted, has_older=bool(page.before)),
        older=older,
        newest=address(path, **kept, **chosen) if before else "",
        is_log=True,
    )


def _reach(context: Context, wanted: CallFilter, *, has_older: bool) -> str:
    """How far a search looks, where it is bounded."""
    say = context.say
    if wanted.order_sn:
        return say("By order number: the calls that issued its waybills.")
    if wanted.shop:
        return say("By shop: calls answered under its consents, not those that were refused.")
    if wanted.leaves_out and has_older:
        return say(
            "Each page searches up to {count} charged and {count} refused calls. To search "
            "further, show older ones.",
            count=grouped(SCANNED_MAX),
        )
    return ""


def _nothing(context: Context, page: LogPage, *, is_filtered: bool) -> Empty:
    say = context.say
    if page.before:
        return Empty(say("Nothing in this part of the log. Look at older calls."))
    if is_filtered:
        return Empty(say("No call matches."))
    # Operators make no calls of their own, and people who may only read send none.
    where = "/account/try" if context.person.account_id else "/docs"
    first = Link(say("Your first call, in the sandbox"), where)
    return Empty(
        say("No live call was made yet. Calls in the sandbox are not listed here."),
        first if context.person.may_change else None,
    )


def _row(
    context: Context, call: LoggedCall, names: Mapping[str, str], *, is_mixed: bool
) -> list[Cell]:
    say = context.say
    row = [
        context.log_time(call.at_ms / 1000),
        outcome_cell(context, call),
        Cell(say(title_of(call.operation))),
    ]
    if is_mixed:
        href = address("/operator/account", id=call.account_id)
        row.append(Cell(names.get(call.account_id, call.account_id), href=href))
    row += [
        Cell(_reason(context, call), "code reason"),
        Cell(amount(say, call.unit, call.amount) if call.unit else "", "number"),
        context.receipt(call.request_id),
    ]
    return row


def _reason(context: Context, call: LoggedCall) -> str:
    if call.reason == "SUCCESS" or call.code is None:
        return ""
    reason = named_reason(context.say, call.reason)
    if not call.more:
        return f"{call.code} {reason}"
    more = context.say("and {count} more like this", count=grouped(call.more))
    return f"{call.code} {reason} {more}"


def _filters(
    context: Context, path: str, chosen: Mapping[str, str], kept: Mapping[str, str]
) -> Filters:
    say = context.say
    operations = [("", say("all"))] + [(each.name, say(each.title)) for each in OPERATIONS]
    reasons = [("", say("all")), ("SUCCESS", say("charged")), (ANY_REFUSAL, say("refused"))]
    reasons += [(each.name, named_reason(say, each.name)) for each in Reason]

    def read(name: str, label: str, kind: str) -> Field:
        return Field(name, label, kind, chosen[name], problem=_problem(context, name))

    return Filters(
        path,
        [
            Field("operation", say("Operation"), "select", chosen["operation"], operations),
            Field("reason", say("Reason"), "select", chosen["reason"].upper(), reasons),
            read("code", say("Result code"), "number"),
            read("amount", say("Charged"), "number"),
            Field("shop", say("Id of a shop or user"), value=chosen["shop"], length_max=64),
            Field("order", say("Order number"), value=chosen["order"], length_max=64),
            *period_fields(context),
        ],
        hidden=kept,
    )
