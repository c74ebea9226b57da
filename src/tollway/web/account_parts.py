"""Parts of an account that operators and callers both see: balances, tokens, usage, the ledger."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta

from tollway.consent.grants import Grant, NamedGrant
from tollway.contract.language import Phrase
from tollway.contract.operation import ConsentNeed
from tollway.ledger.accounts import Account
from tollway.ledger.balance_pace import SOON_DAYS, days_left, pace_start_s
from tollway.ledger.entries import Balance
from tollway.ledger.permissions import common_price, list_permissions, operation_states
from tollway.ledger.token_limits import ACCOUNT_API, TokenLimits, read_limits
from tollway.ledger.token_pages import position_in, position_of, tokens_page
from tollway.ledger.tokens import Token
from tollway.ledger.usage import UsageSum, usage_of_account
from tollway.operations.catalogue import BY_NAME, OPERATIONS, title_of
from tollway.web.area import PAGE_ROWS, Context, address
from tollway.web.blocks import Cell, Chart, Empty, Field, Figure, Figures, Form, Notice, Table
from tollway.web.charts import Series, stacked_columns
from tollway.web.lists import page_part
from tollway.web.wording import amount, grouped, listed, plain_number, titles

DAYS_SHOWN = 30
_DAYS_MEANT = 1000
# The colours of a chart; with installed packages there can be more operations than colours.
_COLOURS = 7


def unit_name(context: Context, unit: str) -> str:
    """What a balance is called: credits, or the calls of an operation."""
    name = unit.removeprefix("calls:")
    if name == unit:
        return context.say("credits")
    return context.say("calls: {operation}", operation=context.say(title_of(name)))


def units(context: Context) -> list[tuple[str, str]]:
    """Every balance that an account can have, and what it is called."""
    names = dict.fromkeys(["credits", *(each.balance_unit for each in OPERATIONS)])
    return [(each, unit_name(context, each)) for each in names]


# What a shop or user can consent to, by owner kind and scope: the need, and the operation's title.
CONSENTED: dict[tuple[str, str], tuple[ConsentNeed, str | Phrase]] = {
    (each.consent.whose.value, each.consent.scope): (each.consent, each.title)
    for each in OPERATIONS
    if each.consent is not None
}


def scope_title(context: Context, grant: Grant) -> str:
    """What a grant allows: the operation that needs it."""
    found = CONSENTED.get((grant.owner_kind, grant.scope))
    return context.say(found[1]) if found else grant.scope


def grants_after(context: Context) -> tuple[int, str] | None:
    """The grant behind which a page of a list begins; None for the first page."""
    granted, _, grant_id = context.query("after").partition(":")
    granted_at_s = plain_number(granted)
    return None if granted_at_s is None else (granted_at_s, grant_id)


def position_of_grant(last: NamedGrant) -> str:
    """The cursor that `grants_after` reads back from the address of the next page."""
    return f"{last.grant.granted_at_s}:{last.grant.id}"


def headed(text: str) -> str:
    return text[:1].upper() + text[1:]


def closed_notice(context: Context, account: Account) -> list[Notice]:
    """A notice for the top of the pages of a closed account."""
    if account.closed_at_s is None:
        return []
    text = context.say("This account is closed: its calls are refused, and it can only be read.")
    return [Notice(text, "bad")]


def balance_figures(
    context: Context,
    balances: Sequence[Balance],
    used: Sequence[UsageSum],
    opened_at_s: int,
    ledger: str = "",
    *,
    has_pace: bool = True,
) -> Figures:
    """What each balance has, and when it runs out at the pace of the last seven days, or since the
    account was opened. The balances of a closed account have no pace."""
    say, figures = context.say, []
    for balance in balances:
        note, tone = _lasts(context, balance, used, opened_at_s) if has_pace else ("", "")
        if balance.held:
            held = say("{amount} held", amount=grouped(balance.held))
            note = say(", ").join(each for each in (note, held) if each)
        figures.append(
            Figure(
                headed(unit_name(context, balance.unit)),
                grouped(balance.amount),
                note=note,
                tone=tone,
                href=address(ledger, unit=balance.unit) if ledger else "",
            )
        )
    if not figures:
        figures.append(
            Figure(say("Balance"), "0", note=say("no credits or calls yet"), tone="soon")
        )
    return Figures(figures)


def _lasts(
    context: Context, balance: Balance, used: Sequence[UsageSum], opened_at_s: int
) -> tuple[str, str]:
    """When a balance runs out, and the tone of that text."""
    say, zone = context.say, context.web.zone
    since_s = pace_start_s(context.now_s, zone)
    taken = sum(
        each.amount for each in used if each.unit == balance.unit and each.start_s >= since_s
    )
    days = days_left(balance.amount, taken, opened_at_s, context.now_s, zone)
    if days is None:
        return say("nothing taken in the last 7 days"), ""
    tone = pace_tone(days)
    if days > _DAYS_MEANT:
        return say("lasts for years at this pace"), tone
    return lasts_until(context, days), tone


def pace_tone(days: int) -> str:
    return "bad" if days < 1 else "soon" if days < SOON_DAYS else "good"


def lasts_until(context: Context, days: int) -> str:
    day = context.web.now() + timedelta(days=days)
    return context.say("lasts until {day} at this pace", day=day.strftime("%Y-%m-%d"))


# An act on a token: the text of its link, and the address.
_TokenAct = tuple[str, Callable[[Token], str]]


async def tokens_table(
    context: Context,
    account_id: str,
    *,
    path: str,
    kept: Mapping[str, str],
    revoke: str,
    rotate: str = "",
    is_closed: bool,
) -> Table:
    """The tokens of an account, page by page; `kept` names the account in an operator's addresses.
    The tokens of a closed account show as closed; a reader who may change nothing sees no acts."""
    say, now_s, after = context.say, context.now_s, position_in(context.query("after"))
    tokens = await tokens_page(context.database, account_id, PAGE_ROWS + 1, now_s, after)
    named = {"account": account_id} if kept else {}
    acts: list[_TokenAct] = []
    may_change = context.person.may_change and not is_closed
    if rotate and may_change:
        acts.append((say("Rotate"), lambda of: address(rotate, token=of.id)))
    if may_change:
        acts.append((say("Revoke"), lambda of: context.question(revoke, **named, token=of.id)))
    first = say("There is no token yet: issue the first below.")
    part = page_part(tokens, after, path, lambda last: position_of(last, now_s), **kept)
    columns = titles(
        say, "Label", "Token", "Kind", "State", "Issued", "Last used", "Expires", "Limits"
    )
    return Table(
        [*columns, *("" for _ in acts)],
        [_token_row(context, each, acts, is_closed=is_closed) for each in part.rows],
        Empty(first if may_change else say("There is no token yet.")),
        title=say("Tokens") if kept else "",
        older=part.next,
        newest=part.first,
    )


def _token_row(
    context: Context, token: Token, acts: Sequence[_TokenAct], *, is_closed: bool
) -> list[Cell]:
    """One token, with `acts` as links while it is active."""
    say, found = context.say, token.state(context.now_s)
    if found == "revoked":
        state = Cell(say("revoked"), tone="bad")
    elif found == "expired":
        state = Cell(say("expired"), tone="bad")
    elif is_closed:
        state = Cell(say("closed"), tone="bad")
    else:
        state = Cell(say("active"), tone="good")
    is_active = state.tone == "good"
    return [
        Cell(token.label or "–"),
        Cell(f"{token.start}…", "code"),
        Cell(say("sandbox") if token.kind == "test" else say("live"), "time"),
        state,
        context.time(token.issued_at_s),
        context.time(token.last_used_at_s) if token.last_used_at_s else Cell(say("never"), "time"),
        context.time(token.expires_at_s),
        Cell(_limits(context, token)),
        *(
            Cell(text, "time", link_of(token), of=token.label or token.start)
            if is_active
            else Cell("")
            for text, link_of in acts
        ),
    ]


def _limits(context: Context, token: Token) -> str:
    say, limits = context.say, token.limits
    parts = [listed(say, limits.operations or ()), listed(say, limits.networks or ())]
    if limits.credits_per_day is not None:
        parts.append(say("{amount} a day", amount=amount(say, "credits", limits.credits_per_day)))
    if limits.calls_per_day is not None:
        parts.append(say("{amount} a day", amount=amount(say, "calls", limits.calls_per_day)))
    return say("; ").join(each for each in parts if each)


def token_form(context: Context, action: str, account_id: str) -> Form:
    say, cap = context.say, context.say("no cap")
    return Form(
        action,
        say("Issue token"),
        [
            Field("label", say("Label"), length_max=100, placeholder="erp-1"),
            Field(
                "kind",
                say("Kind"),
                "select",
                "live",
                [("live", say("live")), ("test", say("sandbox"))],
            ),
            Field("days", say("Valid for days"), "number", placeholder=say("no end"), least=1),
            Field(
                "addresses",
                say("Only from addresses"),
                length_max=2000,
                placeholder="203.0.113.0/24",
            ),
            Field("credits_per_day", say("Credits a day"), "number", placeholder=cap, least=0),
            Field("calls_per_day", say("Calls a day"), "number", placeholder=cap, least=0),
            _only_operations(context),
        ],
        hidden={"account": account_id},
        title=say("Issue a token"),
        is_line=True,
    )


def _only_operations(context: Context) -> Field:
    say = context.say
    named = [(each.name, say(each.title)) for each in OPERATIONS]
    return Field(
        "only",
        say("Only operations"),
        "checks",
        choices=[*named, (ACCOUNT_API, say("Account API"))],
        help=say("(none ticked: all)"),
    )


async def prices_of(context: Context, account_id: str) -> dict[str, int | None]:
    """What each operation costs the account; None if it may not call it now."""
    held = {each.operation: each for each in await list_permissions(context.database, account_id)}
    states = await operation_states(context.database)
    prices: dict[str, int | None] = {}
    for operation in OPERATIONS:
        permission, state = held.get(operation.name), states.get(operation.name)
        if permission is None or (state is not None and state.is_closed):
            prices[operation.name] = None
        else:
            own = permission.price
            prices[operation.name] = common_price(operation, states) if own is None else own
    return prices


def asked_limits(context: Context) -> TokenLimits:
    """The limits of the token form; a LedgerError names what is wrong with them."""
    say = context.say
    return read_limits(
        _only_operations(context).ticked(context.form),
        context.form.get("addresses", "").split(","),
        context.optional_number("credits_per_day", say("Credits a day")),
        context.optional_number("calls_per_day", say("Calls a day")),
        known=list(BY_NAME),
    )


def days_shown(context: Context) -> tuple[date, date]:
    """The first and the last day of an account's usage that its page shows."""
    today = context.web.now().date()
    return today - timedelta(days=DAYS_SHOWN - 1), today


async def recent_usage(context: Context, account_id: str) -> list[UsageSum]:
    return await usage_of_account(
        context.database, account_id, *days_shown(context), context.web.zone
    )


def usage_chart(context: Context, used: Sequence[UsageSum]) -> Chart:
    """Charged calls by day and operation."""
    say, zone = context.say, context.web.zone
    first, _ = days_shown(context)
    days = [(first + timedelta(days=index)).strftime("%m-%d") for index in range(DAYS_SHOWN)]
    calls: defaultdict[str, list[int]] = defaultdict(lambda: [0] * DAYS_SHOWN)
    for each in used:
        index = (datetime.fromtimestamp(each.start_s, zone).date() - first).days
        if 0 <= index < DAYS_SHOWN:
            calls[each.operation][index] += each.calls
    return calls_chart(context, say("Charged calls by day, last 30 days"), say("Day"), days, calls)


def calls_chart(
    context: Context,
    title: str,
    span: str,
    labels: Sequence[str],
    calls: Mapping[str, Sequence[int]],
) -> Chart:
    """Calls per operation and time span, as a chart and as a table."""
    say = context.say
    series = [
        Series(say(operation.title), f"bar{number % _COLOURS + 1}", calls[operation.name])
        for number, operation in enumerate(OPERATIONS)
        if operation.name in calls
    ]
    columns = [span, *(each.name for each in series)]
    rows = [
        [Cell(label), *(context.number(each.values[index]) for each in series)]
        for index, label in enumerate(labels)
        if any(each.values[index] for each in series)
    ]
    return Chart(
        title,
        stacked_columns(labels, series, title, say),
        Table(columns, rows, Empty(say("No call was charged in this time."))),
        [(each.kind, each.name) for each in series],
    )
