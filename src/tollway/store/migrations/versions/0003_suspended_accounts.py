"""Accounts can be suspended.

Gateways of the schema before it can keep serving: they do not read the column, and answer calls of
suspended accounts until they are replaced.
"""

from alembic import op

from tollway.store.migrations import changes

revision = "0003"
down_revision = "0002"
safe_while_serving = True


def upgrade() -> None:
    for text in changes(op.get_context().dialect.name, revision):
        op.execute(text.rstrip().removesuffix(";"))
