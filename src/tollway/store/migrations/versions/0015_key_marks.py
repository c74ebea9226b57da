"""A database knows which keys it is used with."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
safe_while_serving = True


def upgrade() -> None:
    op.create_table(
        "key_check",
        sa.Column("setting", sa.String, primary_key=True),
        sa.Column("key_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("mark", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
