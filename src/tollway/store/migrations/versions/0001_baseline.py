"""The first schema, from the files of `baseline/`.

Nothing was released before it, so no earlier schema is known.
"""

from alembic import op

from tollway.store.migrations import baseline

revision = "0001"
down_revision = None


def upgrade() -> None:
    for text in baseline(op.get_context().dialect.name):
        op.execute(text.rstrip().removesuffix(";"))
