"""A carrier's link knows its protocol, and the seal of its secret is bound to it.

Links made before do not open any more, so none are kept: connect their carriers again.
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.drop_table("carrier_link")
    op.create_table(
        "carrier_link",
        sa.Column("wp_code", sa.String, primary_key=True),
        sa.Column("url", sa.String, nullable=False),
        sa.Column("provider_id", sa.String, nullable=False),
        sa.Column("to_code", sa.String, nullable=False),
        sa.Column("sealed_secret", sa.LargeBinary, nullable=False),
        sa.Column("deadline_ms", sa.BigInteger, nullable=False),
        sa.Column("settle_after_s", sa.BigInteger, nullable=False),
        sa.Column("changed_at_s", sa.BigInteger, nullable=False),
        sa.Column("protocol", sa.String, nullable=False),
        sa.CheckConstraint("deadline_ms > 0", name="carrier_link_deadline"),
        sa.CheckConstraint("settle_after_s * 1000 > deadline_ms", name="carrier_link_settle_after"),
        sqlite_with_rowid=False,
    )
