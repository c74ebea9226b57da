"""Asks a gateway for receipts, as a caller does."""

from typing import Any

from sqlalchemy import bindparam, func, select

from tests.support.gateway import Gateway, Reply
from tests.support.ledger import Caller
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.store.query import Query
from tollway.store.schema.ledger import refused_call

_COUNT = Query(
    select(func.count())
    .select_from(refused_call)
    .where(refused_call.c.account_id == bindparam("of_account"))
)


def id_of(reply: Reply) -> str:
    """What the receipt of a call is asked for with."""
    return str(reply.headers["x-request-id"])


def ask_receipt(gateway: Gateway, token: str | None, request_id: str, **headers: str) -> Reply:
    return gateway.get(f"/receipts/{request_id}", token=token, headers=headers)


def receipt_of(gateway: Gateway, token: str, of: Reply, **headers: str) -> dict[str, Any]:
    """The receipt of an answer; that of a call that was not charged is there a moment later."""

    def is_there(reply: Reply) -> bool:
        assert reply.code in (0, 202, 404), reply.envelope
        return reply.code == 0

    return eventually(lambda: ask_receipt(gateway, token, id_of(of), **headers), is_there).data


def notes_of(store: Store, caller: Caller) -> int:
    """How many calls of an account are written down as not charged."""
    rows = store.do(lambda database: database.fetch_all(_COUNT, of_account=caller.account_id))
    return int(rows[0][0])
