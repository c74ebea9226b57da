"""Carriers, their number pools, and the waybills issued from them."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "carrier",
        sa.Column("wp_code", sa.String, primary_key=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("number_format", sa.String, nullable=False),
        sa.Column("area_kind", sa.String, nullable=False),
        sa.Column("area_provinces", sa.String, nullable=False),
        sa.CheckConstraint("area_kind IN ('all', 'only', 'except')", name="carrier_area_kind"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "waybill_number",
        sa.Column("wp_code", sa.String, primary_key=True),
        sa.Column("number", sa.String, primary_key=True),
        sa.Column("owner_id", sa.String, nullable=False),
        sa.Column("is_taken", sa.Integer, nullable=False),
        sa.CheckConstraint("is_taken IN (0, 1)", name="waybill_number_is_taken"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "waybill_number_next", "waybill_number", ["wp_code", "owner_id", "is_taken", "number"]
    )
    _waybill()


def _waybill() -> None:
    op.create_table(
        "waybill",
        sa.Column("account_id", sa.String, primary_key=True),
        sa.Column("object_id", sa.String, primary_key=True),
        sa.Column("owner_id", sa.String, nullable=False),
        sa.Column("order_sn", sa.String, nullable=False),
        sa.Column("wp_code", sa.String, nullable=False),
        sa.Column("number", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("price", sa.BigInteger, nullable=False),
        sa.Column("issued_at_s", sa.BigInteger, nullable=False),
        sa.Column("cancelled_at_s", sa.BigInteger),
        sa.Column("fingerprints", sa.String, nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.CheckConstraint("state IN ('issued', 'cancelled')", name="waybill_state"),
        sqlite_with_rowid=False,
    )
    op.create_index("waybill_object", "waybill", ["object_id"], unique=True)
    op.create_index("waybill_number_once", "waybill", ["number", "wp_code"], unique=True)
    in_force = sa.text("state = 'issued'")
    op.create_index(
        "waybill_natural_key",
        "waybill",
        ["account_id", "owner_id", "order_sn", "wp_code"],
        unique=True,
        sqlite_where=in_force,
        postgresql_where=in_force,
    )
