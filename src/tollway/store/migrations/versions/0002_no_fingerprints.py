"""Waybills without fingerprints, in SQL that both engines take.

Gateways of the schema before it read and write the column, so none may serve meanwhile.
"""

from pathlib import Path

from alembic import op

revision = "0002"
down_revision = "0001"

_SQL = Path(__file__).parents[1] / "changes" / "0002_no_fingerprints.sql"


def upgrade() -> None:
    op.execute(_SQL.read_text(encoding="utf-8").rstrip().removesuffix(";"))
