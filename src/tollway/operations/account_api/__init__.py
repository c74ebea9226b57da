"""The account API: what a caller can see and change of its own account, free of charge.

Its endpoints are described like operations, so that routing, decoding, limits, the envelope, the
OpenAPI document and the SDKs are the same. `ENDPOINTS` lists them.
"""

from functools import partial

from tollway.operations.account_api import balance, consents, history, tokens, waybills, webhooks
from tollway.operations.account_api.operation import (
    AccountDependencies,
    AccountOperation,
    Endpoint,
    Handler,
)

ENDPOINTS: tuple[Endpoint, ...] = (
    *balance.ENDPOINTS,
    *history.ENDPOINTS,
    *tokens.ENDPOINTS,
    *consents.ENDPOINTS,
    *waybills.ENDPOINTS,
    *webhooks.ENDPOINTS,
)
ACCOUNT_OPERATIONS: tuple[AccountOperation, ...] = tuple(each.operation for each in ENDPOINTS)


def make_handlers(parts: AccountDependencies) -> dict[str, Handler]:
    return {each.operation.name: partial(each.handle, parts) for each in ENDPOINTS}
