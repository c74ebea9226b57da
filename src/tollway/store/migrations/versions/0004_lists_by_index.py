"""Lists that were read whole, or that read what they do not show, have indexes.

Gateways of the schema before it serve as they did.
"""

from alembic import op

from tollway.store.migrations import changes

revision = "0004"
down_revision = "0003"
safe_while_serving = True


def upgrade() -> None:
    for text in changes(op.get_context().dialect.name, revision):
        op.execute(text.rstrip().removesuffix(";"))
