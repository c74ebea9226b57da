"""The stages of requests to the account API."""

from collections.abc import Mapping
from functools import partial

from tollway.carriers.labels.layout import style_of
from tollway.contract.envelope import encode_data
from tollway.contract.reasons import Reason, Refusal
from tollway.contract.sample_refusal import NO_DRY_RUN
from tollway.ledger.runtime import Runtime
from tollway.ledger.token_limits import ACCOUNT_API
from tollway.operations.account_api import ACCOUNT_OPERATIONS, make_handlers
from tollway.operations.account_api.balance import LIMITED
from tollway.operations.account_api.operation import (
    AccountCall,
    AccountDependencies,
    AccountOperation,
    Handler,
    RateLimit,
)
from tollway.pipeline.authenticate import Authenticate, Recheck
from tollway.pipeline.call import Call
from tollway.pipeline.decode import Decode
from tollway.pipeline.dependencies import PipelineDependencies
from tollway.pipeline.dry_run import DRY_RUN_HEADER
from tollway.pipeline.envelope import Enveloper
from tollway.pipeline.permit import not_for
from tollway.pipeline.receipts import sees_receipt
from tollway.pipeline.route import Route
from tollway.pipeline.steps import Steps
from tollway.pipeline.throttle import Throttle
from tollway.webhooks.addresses import Addresses


def permit_account(call: Call) -> None:
    """Stage: refuses test tokens, because the sandbox has no account. A token that is limited to
    operations must list the account API, and for waybills also those. A change has no dry run."""
    if call.caller.is_test:
        raise Refusal(Reason.LIVE_TOKEN_NEEDED)
    limits, operation = call.caller.limits, call.operation
    assert isinstance(operation, AccountOperation)
    if limits is not None and not all(
        limits.allows(each) for each in (ACCOUNT_API, operation.needs) if each
    ):
        raise not_for(limits)
    if call.method != "GET" and DRY_RUN_HEADER in call.headers:
        # The sender expects a dry run, but the change would be made.
        raise Refusal(Reason.PARAMETER_INVALID, **NO_DRY_RUN)


class PerformAccount:
    """Stage: the endpoint's work. Nothing is charged."""

    def __init__(self, handlers: Mapping[str, Handler], throttle: Throttle) -> None:
        self._handlers = handlers
        self._throttle = throttle

    async def __call__(self, call: Call) -> None:
        caller, throttle = call.caller, self._throttle

        def rate_limits() -> list[RateLimit]:
            left = ((name, throttle.left(caller, name)) for name in LIMITED)
            return [RateLimit(name, each.limit, each.remaining) for name, each in left]

        account_call = AccountCall(
            caller.account_id,
            caller.token_id,
            caller.expires_at_s,
            call.at_s,
            call.language,
            rate_limits,
            partial(sees_receipt, caller),
            is_limited=caller.limits is not None,
        )
        call.data = encode_data(
            await self._handlers[call.operation.name](call.request, account_call)
        )


def account_steps(
    parts: PipelineDependencies,
    authenticate: Authenticate,
    throttle: Throttle,
    enveloper: Enveloper,
) -> Steps:
    """All stages, in their order."""
    account = AccountDependencies(
        parts.database,
        parts.links,
        Runtime(),
        parts.settings.zone,
        parts.vault,
        parts.remotes,
        Addresses(parts.settings.internal_hosts),
        style_of(parts.settings),
        parts.settings.call_timeout_s,
    )
    stages = (
        Route(ACCOUNT_OPERATIONS),
        authenticate,
        throttle,
        permit_account,
        Decode(ACCOUNT_OPERATIONS, parts.settings.zone),
        Recheck(authenticate, parts.versions, parts.database, permit_account, is_free=True),
        PerformAccount(make_handlers(account), throttle),
    )
    return Steps(stages, enveloper)
