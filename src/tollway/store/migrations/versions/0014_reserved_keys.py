"""A hold knows the Idempotency-Key that is reserved with it.

Gateways of the schema before it cannot serve on: they would look for an answer in what is only
reserved, and keep the key when they release its hold.
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.add_column("hold", sa.Column("key", sa.String))
