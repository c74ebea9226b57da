"""Holds, kept answers, uncharged calls, and waybills that wait for their carrier."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    _balance()
    _entry()
    _hold()
    _answers()
    _waybill()


def _balance() -> None:
    op.rename_table("balance", "balance_before")
    op.create_table(
        "balance",
        sa.Column("account_id", sa.String, primary_key=True),
        sa.Column("unit", sa.String, primary_key=True),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.Column("held", sa.BigInteger, nullable=False),
        sa.Column("posted", sa.BigInteger, nullable=False),
        sa.Column("entries", sa.BigInteger, nullable=False),
        sa.CheckConstraint("amount >= 0", name="balance_amount"),
        sa.CheckConstraint("held >= 0", name="balance_held"),
        sa.CheckConstraint("posted >= 0", name="balance_posted"),
        sqlite_with_rowid=False,
    )
    op.execute(
        "INSERT INTO balance SELECT account_id, unit, amount, 0, coalesce((SELECT -sum(amount) "
        "FROM entry WHERE entry.account_id = balance_before.account_id "
        "AND entry.unit = balance_before.unit AND kind = 'charge'), 0), entries "
        "FROM balance_before"
    )
    op.drop_table("balance_before")


def _entry() -> None:
    # A constraint cannot be changed in place on every engine, so the table is made anew.
    op.rename_table("entry", "entry_before")
    op.create_table(
        "entry",
        sa.Column("account_id", sa.String, primary_key=True),
        sa.Column("unit", sa.String, primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.Column("balance_after", sa.BigInteger, nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("operation", sa.String),
        sa.Column("request_id", sa.String),
        sa.Column("token_id", sa.String),
        sa.Column("note", sa.String),
        sa.CheckConstraint(
            "kind IN ('top_up', 'correction', 'charge', 'hold', 'release')", name="entry_kind"
        ),
        sqlite_with_rowid=False,
    )
    op.execute("INSERT INTO entry SELECT * FROM entry_before")
    op.drop_table("entry_before")
    op.create_index("entry_request", "entry", ["request_id"])


def _hold() -> None:
    op.create_table(
        "hold",
        sa.Column("account_id", sa.String, primary_key=True),
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("unit", sa.String, nullable=False),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.Column("operation", sa.String, nullable=False),
        sa.Column("request_id", sa.String, nullable=False),
        sa.Column("token_id", sa.String, nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("deadline_at_ms", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("settled_at_ms", sa.BigInteger),
        sa.Column("owner_kind", sa.String),
        sa.Column("owner_id", sa.String),
        sa.Column("consent_id", sa.String),
        sa.CheckConstraint("amount >= 0", name="hold_amount"),
        sa.CheckConstraint("state IN ('held', 'captured', 'released')", name="hold_state"),
        sqlite_with_rowid=False,
    )
    op.create_index("hold_request", "hold", ["request_id"])
    held = sa.text("state = 'held'")
    op.create_index(
        "hold_open", "hold", ["deadline_at_ms"], sqlite_where=held, postgresql_where=held
    )


def _answers() -> None:
    op.create_table(
        "kept_answer",
        sa.Column("account_id", sa.String, primary_key=True),
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("request_id", sa.String, nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("fingerprint", sa.LargeBinary, nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("kept_answer_at", "kept_answer", ["at_ms"])
    op.create_table(
        "refused_call",
        sa.Column("account_id", sa.String, primary_key=True),
        sa.Column("request_id", sa.String, primary_key=True),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("operation", sa.String, nullable=False),
        sa.Column("code", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("replay_of", sa.String),
        sqlite_with_rowid=False,
    )
    op.create_index("refused_call_at", "refused_call", ["at_ms"])


def _waybill() -> None:
    op.rename_table("waybill", "waybill_before")
    op.create_table(
        "waybill",
        sa.Column("account_id", sa.String, primary_key=True),
        sa.Column("object_id", sa.String, primary_key=True),
        sa.Column("owner_id", sa.String, nullable=False),
        sa.Column("order_sn", sa.String, nullable=False),
        sa.Column("wp_code", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("number", sa.String),
        sa.Column("price", sa.BigInteger, nullable=False),
        sa.Column("request_id", sa.String),
        sa.Column("hold_id", sa.String),
        sa.Column("asked_at_s", sa.BigInteger, nullable=False),
        sa.Column("issued_at_s", sa.BigInteger),
        sa.Column("cancelled_at_s", sa.BigInteger),
        sa.Column("refusal", sa.String),
        sa.Column("fingerprints", sa.String, nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.CheckConstraint(
            "state IN ('pending', 'issued', 'refused', 'cancelled')", name="waybill_state"
        ),
        sqlite_with_rowid=False,
    )
    op.execute(
        "INSERT INTO waybill SELECT account_id, object_id, owner_id, order_sn, wp_code, state, "
        "number, price, NULL, NULL, issued_at_s, issued_at_s, cancelled_at_s, NULL, "
        "fingerprints, sealed FROM waybill_before"
    )
    op.drop_table("waybill_before")
    _waybill_indexes()


def _waybill_indexes() -> None:
    op.create_index("waybill_object", "waybill", ["object_id"], unique=True)
    op.create_index("waybill_number_once", "waybill", ["number", "wp_code"], unique=True)
    in_force, pending = sa.text("state IN ('pending', 'issued')"), sa.text("state = 'pending'")
    op.create_index(
        "waybill_natural_key",
        "waybill",
        ["account_id", "owner_id", "order_sn", "wp_code"],
        unique=True,
        sqlite_where=in_force,
        postgresql_where=in_force,
    )
    op.create_index(
        "waybill_pending", "waybill", ["asked_at_s"], sqlite_where=pending, postgresql_where=pending
    )
