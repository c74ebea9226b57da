"""Tokens on the pages of operators and callers: issuing them, showing them once with a call to copy
if the account can pay for one, and revoking them."""

from collections.abc import Mapping
from typing import Any

from tollway.consent.owners import credential_of
from tollway.contract.operation import Operation, OwnerKind
from tollway.ledger.entries import amounts_by_unit
from tollway.ledger.token_format import PREFIXES
from tollway.ledger.tokens import IssuedToken, Token, issue_token, revoke_token
from tollway.ledger.usage import DAY_S
from tollway.operations.account_api.examples import ALL_EXAMPLES
from tollway.operations.catalogue import OPERATIONS
from tollway.operations.demo_data import SHOPS
from tollway.web.account_parts import asked_limits, prices_of
from tollway.web.area import Context, address
from tollway.web.blocks import Block, Code, Link, Notice, Secret
from tollway.web.code_samples import samples_of
from tollway.web.wording import listed

# The parameters of the examples that name something of the demo data.
_OF_DEMO = frozenset(
    ("product_id", "sid", "owner_id", "wp_code", "platform_user_id", "site_id", "adzone_id")
)


async def issued_token(context: Context, account_id: str) -> IssuedToken:
    """Issues what the form of `token_form` asks for."""
    days = context.optional_number("days", context.say("Valid for days"))
    return await issue_token(
        context.database,
        context.runtime,
        account_id,
        kind="test" if context.form.get("kind") == "test" else "live",
        label=context.form.get("label", "")[:100],
        lifetime_s=None if days is None else days * DAY_S,
        limits=asked_limits(context),
        day_start_s=context.counted_from_s,
    )


async def revoke(context: Context, token: Token) -> None:
    """Revokes a token, once the reader has confirmed it."""
    say, name = context.say, token.label or token.start
    question = say("Revoke the token “{name}”? Calls with it are refused at once.", name=name)
    context.confirm(question, say("Revoke"))
    await revoke_token(context.database, context.runtime, token.id)


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
    return [secret, *(await _first_call(context, issued, operation) if operation else ())]


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
