"""Waybills are found by the request that asked for them."""

from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.create_index("waybill_request", "waybill", ["request_id"])
