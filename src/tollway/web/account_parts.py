"""Parts of an account that operators and callers both see: balances, usage, prices, consents."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta

from tollway.consent.grants import Grant, NamedGrant
from tollway.contract.language import Phrase
from tollway.contract.operation import ConsentNeed, OwnerKind
from tollway.ledger.accounts import Account
from tollway.ledger.balance_pace import SOON_DAYS, days_left, pace_start_s
from tollway.ledger.entries import Balance
from tollway.ledger.permissions import list_permissions, list_price, operation_states
from tollway.ledger.usage import UsageSum, usage_of_account
from tollway.operations.catalogue import OPERATIONS, title_of
from tollway.web.area import Context, address
from tollway.web.blocks import Cell, Chart, Empty, Figure, Figures, Notice, Table
from tollway.web.charts import Series, stacked_columns
from tollway.web.wording import grouped, plain_number, sentence
from tollway.webhooks.polled_events import EXPIRES_SOON_S

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


def grant_cells(context: Context, grant: Grant) -> list[Cell]:
    """What a grant allows, whether it holds, since when and until when."""
    say, is_valid = context.say, grant.holds(context.now_s)
    return [
        Cell(scope_title(context, grant), title=grant.scope),
        Cell(say("allowed") if is_valid else say("ended"), tone="good" if is_valid else "bad"),
        context.time(grant.granted_at_s),
        expiry(context, grant.expires_at_s, is_valid=is_valid),
    ]


def expiry(context: Context, at_s: float | None, *, is_valid: bool) -> Cell:
    """When something ends; marked from when on a webhook event has said so too."""
    is_soon = is_valid and at_s is not None and at_s <= context.now_s + EXPIRES_SOON_S
    return context.time(at_s)._replace(tone="soon" if is_soon else "")


def owner_for_member(context: Context, grant: Grant, name: str) -> str:
    """Who gave a grant: a shop also by its name, while the grant holds. Users are people, and their
    names are not for callers."""
    shown = context.owner(grant.owner_kind, grant.owner_id)
    is_named = grant.owner_kind == OwnerKind.SHOP and grant.holds(context.now_s)
    return f"{shown} · {name}" if is_named and name else shown


def grants_after(context: Context) -> tuple[int, str] | None:
    """The grant behind which a page of a list begins; None for the first page."""
    granted, _, grant_id = context.query("after").partition(":")
    granted_at_s = plain_number(granted)
    return None if granted_at_s is None else (granted_at_s, grant_id)


def position_of_grant(last: NamedGrant) -> str:
    """The cursor that `grants_after` reads back from the address of the next page."""
    return f"{last.grant.granted_at_s}:{last.grant.id}"


def named_account(context: Context, account_id: str, name: str = "id") -> dict[str, str]:
    """What names the account in an operator's addresses and forms; members have one alone."""
    return {} if context.person.account_id else {name: account_id}


def headed(text: str) -> str:
    return text[:1].upper() + text[1:]


def state_notice(context: Context, account: Account) -> list[Notice]:
    """A notice for the top of the pages of an account that is not open."""
    if account.state == "open":
        return []
    texts = {
        "suspended": sentence(
            "This account is suspended: its calls are refused until the operator resumes it."
        ),
        "closed": sentence(
            "This account is closed: its calls are refused, and it can only be read."
        ),
    }
    return [Notice(context.say(texts[account.state]), "bad")]


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
            prices[operation.name] = list_price(operation, states) if own is None else own
    return prices


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
