"""The latest changes of accounts are named, so that gateways keep what they know of the others.

Gateways of the schema before it can keep serving: they name no account with their changes, so that
newer ones read everything again, as they do themselves.
"""

from alembic import op

from tollway.store.migrations import changes

revision = "0005"
down_revision = "0004"
safe_while_serving = True


def upgrade() -> None:
    for text in changes(op.get_context().dialect.name, revision):
        op.execute(text.rstrip().removesuffix(";"))
