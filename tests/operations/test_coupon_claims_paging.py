"""Pages and totals against a plain list, with claims on and beside the borders of hours."""

import json
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.coupons import NOON_S, claim, put_claims
from tests.support.handlers import result_of
from tests.support.stores import Store
from tollway.contract.operation import CallInfo
from tollway.operations.coupon_claims.handler import CouponClaimsHandler
from tollway.operations.coupon_claims.operation import CouponClaimsRequest
from tollway.operations.coupon_claims.records import ClaimRow
from tollway.operations.coupon_claims.schema import coupon_claim, coupon_claim_hour
from tollway.store.open import OpenDatabase
from tollway.store.query import Query

HOURS = 5
# Mostly the borders themselves: that is where a page or a count would be one off.
moments = st.one_of(
    st.builds(
        lambda hour, beside: NOON_S + 3600 * hour + beside,
        st.integers(0, HOURS),
        st.sampled_from([-1, 0, 1]),
    ),
    st.integers(NOON_S - 10, NOON_S + 3600 * HOURS + 10),
)
claims = st.builds(
    claim,
    st.integers(0, 60).map("c{:02}".format),
    moments,
    sid=st.sampled_from(["s1", "s2"]),
    claim_type=st.sampled_from([4, 6]),
)


@pytest.fixture(scope="module")
def its_store(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Store:
    return Store(tmp_path_factory.mktemp("paging") / "tollway.db")


async def empty(database: OpenDatabase) -> None:
    async def work(transaction):
        for table in (coupon_claim, coupon_claim_hour):
            await transaction.execute(Query(table.delete()))

    await database.write(work)


def expected(stored: dict[str, ClaimRow], start_s: int, end_s: int) -> list[str]:
    """The whole list, the plain way."""
    wanted = [
        (row.newest_first, row.coupon_code)
        for row in stored.values()
        if (row.sid, row.claim_type) == ("s1", 4) and start_s <= -row.newest_first < end_s
    ]
    return [code for _, code in sorted(wanted)]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    chunks=st.lists(st.lists(claims, max_size=40), max_size=4),
    ends=st.tuples(moments, moments).filter(lambda pair: pair[0] != pair[1]),
    limit=st.integers(1, 12),
    is_backwards=st.booleans(),
)
def test_all_pages_together_are_the_list_and_each_tells_the_exact_total(
    its_store: Store,
    chunks: list[list[ClaimRow]],
    ends: tuple[int, int],
    limit: int,
    is_backwards: bool,
) -> None:
    """By one handler, which knows the counts of before each change."""
    start_s, end_s = sorted(ends)

    async def work(database: OpenDatabase) -> None:
        handler = CouponClaimsHandler(database, ZoneInfo("Asia/Shanghai"))
        await empty(database)
        stored: dict[str, ClaimRow] = {}
        for chunk in chunks:
            await put_claims(database, chunk)
            stored |= {row.coupon_code: row for row in chunk}
            whole = expected(stored, start_s, end_s)
            for page in range(1, len(whole) // limit + 3)[:: -1 if is_backwards else 1]:
                request = CouponClaimsRequest(start_s, end_s, page, limit, "s1", 4)
                data = json.loads(await result_of(handler(request, CallInfo("acc", 1))))
                assert data["total"] == len(whole)
                found = [record["couponCode"] for record in data["dataList"]]
                assert found == whole[(page - 1) * limit : page * limit]

    its_store.do(work)
