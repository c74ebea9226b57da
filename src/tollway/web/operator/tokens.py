"""An account's tokens: issued and revoked. The page of the account lists them."""

from starlette.responses import Response

from tollway.ledger.tokens import issue_token, list_tokens, revoke_token
from tollway.ledger.usage import DAY_S
from tollway.operations.catalogue import OPERATIONS
from tollway.web.account_parts import asked_limits, prices_of
from tollway.web.area import Context
from tollway.web.blocks import Notice
from tollway.web.new_tokens import new_token, payable_operations
from tollway.web.operator.accounts import ONE, account_page, find_wanted
from tollway.web.page_errors import PageError


async def issue_act(context: Context) -> Response:
    say, account = context.say, await find_wanted(context)
    kind = "test" if context.form.get("kind") == "test" else "live"
    days = context.optional_number("days", say("Valid for days"))
    issued = await issue_token(
        context.database,
        context.runtime,
        account.id,
        kind=kind,
        label=context.form.get("label", "")[:100],
        lifetime_s=None if days is None else days * DAY_S,
        limits=asked_limits(context),
    )
    shown = await new_token(context, issued)
    wanted = [each.name for each in OPERATIONS if issued.token.limits.allows(each.name)]
    if wanted and not await payable_operations(context, issued.token):
        prices = await prices_of(context, account.id)
        text = say("No operation that this token may call can be paid yet: top up below.")
        if all(prices[each] is None for each in wanted):
            text = say("This account may call no operation of this token yet: enable one below.")
        shown.append(Notice(text, "soon"))
    return await account_page(context, account, *shown)


async def revoke_act(context: Context) -> Response:
    say, account = context.say, await find_wanted(context)
    tokens = {each.id: each for each in await list_tokens(context.database, account.id)}
    token = tokens.get(context.form.get("token", ""))
    if token is None:
        raise PageError(404, "There is no such token", "It may be revoked already.")
    name = token.label or token.start
    question = say("Revoke the token “{name}”? Calls with it are refused at once.", name=name)
    asked = context.ask_once(question, say("Revoke"))
    if asked is not None:
        return asked
    await revoke_token(context.database, context.runtime, token.id)
    return context.go(ONE, id=account.id, said="revoked")
