"""Old entries can be dropped: what they came to is archived_balance on."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
safe_while_serving = True


def upgrade() -> None:
    op.create_table(
        "archived_balance",
        sa.Column("account_id", sa.String, primary_key=True),
        sa.Column("unit", sa.String, primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("balance_after", sa.BigInteger, nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("top_up", sa.BigInteger, nullable=False),
        sa.Column("correction", sa.BigInteger, nullable=False),
        sa.Column("charge", sa.BigInteger, nullable=False),
        sa.Column("hold", sa.BigInteger, nullable=False),
        sa.Column("release", sa.BigInteger, nullable=False),
        sa.Column("waybills", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
