"""The first schema, in SQL of each engine's own, which stays as it is when the tables change."""

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None

_BASELINE = Path(__file__).parents[1] / "baseline"
# In this order.
_FILES = {
    "sqlite": ("ledger.sql", "operations.sql", "webhooks.sql"),
    "postgresql": ("ledger.sql", "operations.sql", "webhooks.sql", "months.sql", "charging.sql"),
}


def upgrade() -> None:
    dialect = op.get_context().dialect.name
    for name in _FILES[dialect]:
        text = (_BASELINE / dialect / name).read_text(encoding="utf-8")
        op.execute(text.rstrip().removesuffix(";"))
