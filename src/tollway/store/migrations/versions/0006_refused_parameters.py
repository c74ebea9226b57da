"""Receipts of refused calls say which parameter was wrong.

Gateways of the schema before it can keep serving: they do not write the column.
"""

from alembic import op

from tollway.store.migrations import changes

revision = "0006"
down_revision = "0005"
safe_while_serving = True


def upgrade() -> None:
    for text in changes(op.get_context().dialect.name, revision):
        op.execute(text.rstrip().removesuffix(";"))
