"""What the toll expects of an operation's handler."""

from collections.abc import Awaitable, Callable
from typing import Any

from tollway.contract.operation import Caller
from tollway.ledger.charges import Act

# A handler takes the decoded request. It gives the payload, encoded as it stands in the envelope;
# or, if it has something to do that must be there exactly when the charge is, an act for the
# settlement, which gives the payload then.
Handler = Callable[[Any, Caller], Awaitable[bytes | Act]]
