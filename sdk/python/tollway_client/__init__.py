"""Calls a Tollway gateway: typed, sync and async.

from tollway_client import Client

with Client("tw_test_…", "https://gateway.example") as client:
    for order in client.iter_orders(owner_id="880012001"):
        print(order.order_sn, order.pay_amount)
"""

__version__ = "0.1.0"

from tollway_client._json import Cost, Meta
from tollway_client.async_client import AsyncClient
from tollway_client.client import Client
from tollway_client.errors import (
    CarrierRefusedError,
    CredentialInvalidError,
    NotAuthorizedError,
    NotFoundError,
    OperationClosedError,
    OwnerUnknownError,
    ParameterError,
    PermissionMissingError,
    RefusedError,
    RetryLaterError,
    SignatureError,
    SystemFaultError,
    ThrottledError,
    TimedOutError,
    TollwayError,
    TransportError,
    UnavailableError,
    UnexpectedAnswerError,
    UnknownPathError,
    UsedUpError,
)

__all__ = [
    "AsyncClient",
    "CarrierRefusedError",
    "Client",
    "Cost",
    "CredentialInvalidError",
    "Meta",
    "NotAuthorizedError",
    "NotFoundError",
    "OperationClosedError",
    "OwnerUnknownError",
    "ParameterError",
    "PermissionMissingError",
    "RefusedError",
    "RetryLaterError",
    "SignatureError",
    "SystemFaultError",
    "ThrottledError",
    "TimedOutError",
    "TollwayError",
    "TransportError",
    "UnavailableError",
    "UnexpectedAnswerError",
    "UnknownPathError",
    "UsedUpError",
]
