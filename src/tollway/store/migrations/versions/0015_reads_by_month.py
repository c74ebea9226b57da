"""On PostgreSQL, what was read under grants is divided by month too.

Nothing is copied: the table as it was becomes the rest, so that nobody waits for long.
"""

from alembic import op

revision = "0015"
down_revision = "0014"
safe_while_serving = True


def upgrade() -> None:
    if op.get_context().dialect.name != "postgresql":
        return
    op.execute("ALTER TABLE consent_use RENAME TO consent_use_rest")
    op.execute(
        "CREATE TABLE consent_use (LIKE consent_use_rest INCLUDING CONSTRAINTS) "
        "PARTITION BY RANGE (at_ms)"
    )
    op.execute("ALTER TABLE consent_use ATTACH PARTITION consent_use_rest DEFAULT")
    # This month, unless the rest has much of it, and two more.
    op.execute(
        "SELECT tollway_make_months('consent_use', 'at_ms', 1000, ("
        "SELECT array_agg(extract(epoch FROM now() + nth * interval '1 month')::bigint) "
        "FROM generate_series(0, 2) AS nth))"
    )
