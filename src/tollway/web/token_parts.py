"""Tokens on the pages of operators and callers: the list, issuing one, showing it once with a call
to copy if the account can pay for one, and revoking it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.responses import Response

from tollway.consent.owners import credential_of
from tollway.contract.operation import Operation, OwnerKind
from tollway.ledger.accounts import Account
from tollway.ledger.entries import amounts_by_unit
from tollway.ledger.token_format import PREFIXES
from tollway.ledger.token_limits import ACCOUNT_API, TokenLimits, read_limits
from tollway.ledger.token_list import position_in, position_of, tokens_page
from tollway.ledger.tokens import IssuedToken, Token, find_own_token, issue_token, revoke_token
from tollway.ledger.usage import DAY_S
from tollway.operations.account_api.examples import ALL_EXAMPLES
from tollway.operations.catalogue import BY_NAME, OPERATIONS
from tollway.operations.demo_data import SHOPS
from tollway.web.account_parts import expiry, named_account, prices_of
from tollway.web.area import PAGE_ROWS, Context, PageSpec, address
from tollway.web.blocks import Block, Cell, Code, Empty, Field, Form, Link, Notice, Secret, Table
from tollway.web.code_samples import samples_of
from tollway.web.lists import page_part
from tollway.web.member_parts import check_signed_in
from tollway.web.page_errors import PageError
from tollway.web.wording import amount, listed, titles

# The parameters of the examples that name something of the demo data.
_OF_DEMO = frozenset(
    ("product_id", "sid", "owner_id", "wp_code", "platform_user_id", "site_id", "adzone_id")
)


@dataclass(frozen=True)
class TokenPages:
    """The list of an account's tokens, issuing and revoking one, as the pages of one area."""

    # Whose tokens a request is about, and a page of that account, below what an act shows.
    account: Callable[[Context], Awaitable[Account]]
    page: Callable[..., Response]
    path: str
    issue: str
    revoke: str
    # Where a token is rotated, if it can be.
    rotate: str = ""

    def specs(self) -> list[PageSpec]:
        return [
            PageSpec(self.path, self.show),
            PageSpec(self.issue, act=self._issue),
            PageSpec(self.revoke, self._revoke, self._revoke),
        ]

    async def show(self, context: Context, *first: Block) -> Response:
        """The tokens, page by page. Those of a closed account show as closed; a reader who may
        change nothing sees no acts."""
        say, account = context.say, await self.account(context)
        now_s, after = context.now_s, position_in(context.query("after"))
        tokens = await tokens_page(context.database, account.id, PAGE_ROWS + 1, now_s, after)
        kept, is_closed = named_account(context, account.id), account.closed_at_s is not None
        may_change = context.person.may_change and not is_closed
        acts = (["", ""] if self.rotate else [""]) if may_change else []
        none = say("There is no token yet: issue the first below.")
        part = page_part(tokens, after, self.path, lambda last: position_of(last, now_s), **kept)
        columns = titles(say, "Label", "Token", "State", "Issued", "Last used", "Expires", "Limits")
        table = Table(
            [*columns, *acts],
            [
                [
                    *_token_cells(context, each, is_closed),
                    *(self._acts(context, each) if acts else []),
                ]
                for each in part.rows
            ],
            Empty(none if may_change else say("There is no token yet.")),
            title=say("Tokens") if kept else "",
            older=part.next,
            newest=part.first,
        )
        forms = [_token_form(context, self.issue, account.id)] if may_change else []
        return self.page(context, account, self.path, [table, *forms], *first)

    def _acts(self, context: Context, token: Token) -> list[Cell]:
        """Links, while a token is active."""
        say, of = context.say, token.label or token.start
        named = {**named_account(context, token.account_id, "account"), "token": token.id}
        acts = [Cell(say("Revoke"), "time", context.question(self.revoke, **named), of=of)]
        if self.rotate:
            acts.insert(0, Cell(say("Rotate"), "time", address(self.rotate, **named), of=of))
        return acts if token.state(context.now_s) == "valid" else [Cell("") for _ in acts]

    async def own_token(self, context: Context) -> Token:
        """A token of this account; another account's token is "no such token"."""
        account, wanted = await self.account(context), context.form.get("token", "")
        found = await find_own_token(context.database, account.id, wanted)
        if found is None:
            raise PageError(404, "There is no such token", "It may be revoked already.")
        return found

    async def _issue(self, context: Context) -> Response:
        account = await self.account(context)
        days = context.optional_number("days", context.say("Valid for days"))
        issued = await issue_token(
            context.database,
            context.runtime,
            account.id,
            kind=chosen_kind(context),
            label=context.form.get("label", "")[:100],
            lifetime_s=None if days is None else days * DAY_S,
            limits=_asked_limits(context),
            day_start_s=context.counted_from_s,
            check_maker=partial(check_signed_in, context),
        )
        return await self.show(context, *await new_token(context, issued))

    async def _revoke(self, context: Context) -> Response:
        say, token = context.say, await self.own_token(context)
        name = token.label or token.start
        question = say("Revoke the token “{name}”? Calls with it are refused at once.", name=name)
        context.confirm(question, say("Revoke"))
        await revoke_token(context.database, context.runtime, token.id)
        named = named_account(context, token.account_id)
        return context.go(self.path, **named, said="revoked")


def _token_cells(context: Context, token: Token, is_closed: bool) -> list[Cell]:
    say, found = context.say, token.state(context.now_s)
    state = Cell(say("closed" if is_closed else "active"), tone="bad" if is_closed else "good")
    if found != "valid":
        state = Cell(say(found), tone="bad")
    return [
        Cell(token.label or "–"),
        Cell(f"{token.start}…", "code"),
        state,
        context.time(token.issued_at_s),
        context.time(token.last_used_at_s) if token.last_used_at_s else Cell(say("never"), "time"),
        expiry(context, token.expires_at_s, is_valid=state.tone == "good"),
        Cell(_limits(context, token)),
    ]


def _limits(context: Context, token: Token) -> str:
    say, limits = context.say, token.limits
    named = dict(_only_operations(context).choices)
    operations = [named.get(each, each) for each in limits.operations or ()]
    parts = [listed(say, operations), listed(say, limits.networks or ())]
    if limits.credits_per_day is not None:
        parts.append(say("{amount} a day", amount=amount(say, "credits", limits.credits_per_day)))
    if limits.calls_per_day is not None:
        parts.append(say("{amount} a day", amount=amount(say, "calls", limits.calls_per_day)))
    return say("; ").join(each for each in parts if each)


def kind_field(context: Context) -> Field:
    """Whether a token, or those of a client, are for live data or for the sandbox. Lists of tokens
    show it by how they begin."""
    say = context.say
    named = {"live": say("live"), "test": say("sandbox")}
    kinds = [
        (kind, say("{title}: {text}", title=name, text=f"{PREFIXES[kind]}…"))
        for kind, name in named.items()
    ]
    return Field("kind", say("Kind"), "select", "live", kinds)


def chosen_kind(context: Context) -> str:
    return "test" if context.form.get("kind") == "test" else "live"


def _token_form(context: Context, action: str, account_id: str) -> Form:
    say, cap = context.say, context.say("no cap")
    return Form(
        action,
        say("Issue token"),
        [
            Field("label", say("Label"), length_max=100, placeholder="erp-1"),
            kind_field(context),
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
        hidden=named_account(context, account_id, "account"),
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


def _asked_limits(context: Context) -> TokenLimits:
    """The limits of the token form; a LedgerError names what is wrong with them."""
    say = context.say
    return read_limits(
        _only_operations(context).ticked(context.form),
        context.form.get("addresses", "").split(","),
        context.optional_number("credits_per_day", say("Credits a day")),
        context.optional_number("calls_per_day", say("Calls a day")),
        known=list(BY_NAME),
    )


async def payable_operations(context: Context, token: Token) -> list[Operation]:
    """The operations that a token can call and pay for now; calls with a test token are free."""
    can_call = [each for each in OPERATIONS if token.limits.allows(each.name)]
    if token.kind == "test":
        return can_call
    prices = await prices_of(context, token.account_id)
    left = await amounts_by_unit(context.database, token.account_id)
    return [
        each
        for each in can_call
        if (price := prices[each.name]) is not None and left.get(each.balance_unit, 0) >= price
    ]


async def new_token(context: Context, issued: IssuedToken) -> list[Block]:
    say = context.say
    secret = Secret(say("The new token"), issued.text, say("Copy it now: it is not shown again."))
    payable = await payable_operations(context, issued.token)
    # An operation of an installed package may have no example.
    operation = next((each for each in payable if each.name in ALL_EXAMPLES), None)
    shown: list[Block] = [secret]
    if operation is not None:
        shown += await _first_call(context, issued, operation)
    if not payable and not context.person.account_id:
        shown += await _unpayable(context, issued.token)
    return shown


async def _unpayable(context: Context, token: Token) -> list[Block]:
    """For an operator: what is to be done before any call with a token can be paid."""
    say, wanted = context.say, [each.name for each in OPERATIONS if token.limits.allows(each.name)]
    if not wanted:
        return []
    prices = await prices_of(context, token.account_id)
    text = say("No operation that this token may call can be paid yet.")
    cure = Link(say("Top up"), address("/operator/account", id=token.account_id))
    if all(prices[each] is None for each in wanted):
        text = say("This account may call no operation of this token yet.")
        permissions = address("/operator/account/operations", id=token.account_id)
        cure = Link(say("Enable operations"), permissions)
    return [Notice(text, "soon", cure)]


async def _first_call(context: Context, issued: IssuedToken, operation: Operation) -> list[Block]:
    say, token = context.say, issued.token
    today = context.web.now().date()
    request = ALL_EXAMPLES[operation.name].request(today)
    own: Mapping[str, Any] = {}
    if token.kind == "live" and not await _has_demo_data(context):
        own = {name: name.upper() for name in request if name in _OF_DEMO}
    base, is_live = context.services.settings.public_address, token.kind == "live"
    name, text = samples_of(operation, {**request, **own}, base, is_live=is_live)[0]
    text = text.replace(f"{PREFIXES[token.kind]}…", issued.text)
    log = "/account/requests"
    if not context.person.account_id:
        log = address("/operator/requests", account=token.account_id)
    said = say("Once it is made, its receipt is in the request log.")
    link = Link(say("Requests"), log)
    if not is_live:
        # The log leaves out sandbox calls, but each has a receipt.
        said = say(
            "A call in the sandbox is not in the request log. To see its receipt, search for its "
            "X-Request-Id."
        )
        link = Link(say("Sandbox"), "/docs/sandbox")
    if own:
        names = listed(say, own.values())
        put = say("Put a value of your own in place of {names}.", names=names)
        said = say(" ").join((put, said))
    return [Code(say("A first call with it"), [(name, text)]), Notice(said, link=link)]


async def _has_demo_data(context: Context) -> bool:
    """Whether what the examples name exists: in the demo world, and in every sandbox."""
    shop = SHOPS[0].owner_id
    return await credential_of(context.database, OwnerKind.SHOP, shop) is not None
