"""Who serves the database, and the oldest schema whose gateways can serve on this one."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
safe_while_serving = True


def upgrade() -> None:
    op.create_table(
        "node",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("version", sa.String, nullable=False),
        sa.Column("knows_schema", sa.String, nullable=False),
        sa.Column("seen_at_ms", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "schema_floor",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("revision", sa.String, nullable=False),
        sa.CheckConstraint("id = 1", name="schema_floor_one_row"),
    )
    op.execute("INSERT INTO schema_floor (id, revision) VALUES (1, '0011')")
