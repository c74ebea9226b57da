"""What the ledger's machine draws from."""

from hypothesis import strategies as st

from tests.ledger import ledger_calls
from tests.ledger.ledger_calls import Crash

PRICES = {"product_analysis": 1, "coupon_claims": 2, "waybills": 5}
# Whatever a multiple of it is, seconds and milliseconds tell it exactly.
TICK_MS = 125
START_MS = 1_700_000_000_000

accounts = st.sampled_from((0, 1))
units = st.sampled_from(("credits", "calls:product_analysis"))
# An operation that is refused beforehand if it cannot be paid has no other way to fail: which of
# the two a caller gets would depend on what is remembered of the balance.
requests = st.sampled_from(
    [(name, what) for name in PRICES for what in (ledger_calls.DATA, ledger_calls.DEED)]
    + [
        ("waybills", what)
        for what in (
            ledger_calls.FREE,
            ledger_calls.BREAK,
            ledger_calls.FAIL,
            *ledger_calls.ERRANDS,
        )
    ]
)
# Few numbers and few keys, so that they meet again.
calls = st.tuples(
    accounts,
    st.integers(0, 3),
    requests,
    st.integers(0, 2),
    st.sampled_from((None, None, "k1", "k2", "k3")),
)
crashes = st.builds(Crash, st.sampled_from((1, 1, 2)), st.booleans())
CallDrawn = tuple[int, int, tuple[str, str], int, str | None]
