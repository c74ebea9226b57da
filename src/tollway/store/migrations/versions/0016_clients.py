"""Clients obtain tokens themselves, and a token knows which client it is of."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
# Gateways of the schema before it refuse such tokens when they must: each has its own end.
safe_while_serving = True


def upgrade() -> None:
    op.create_table(
        "client",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("hash", sa.LargeBinary, nullable=False, unique=True),
        sa.Column("account_id", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("label", sa.String, nullable=False),
        sa.Column("start", sa.String, nullable=False),
        sa.Column("added_at_s", sa.BigInteger, nullable=False),
        sa.Column("revoked_at_s", sa.BigInteger),
        sa.CheckConstraint("kind IN ('live', 'test')", name="client_kind"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_client_account_id", "client", ["account_id"])
    op.add_column("token", sa.Column("client_id", sa.String))
    obtained = sa.text("client_id IS NOT NULL")
    for name, columns in (
        ("token_client", ["client_id", "issued_at_s"]),
        ("token_client_expiry", ["kind", "expires_at_s"]),
    ):
        op.create_index(name, "token", columns, sqlite_where=obtained, postgresql_where=obtained)
