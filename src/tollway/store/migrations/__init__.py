"""Alembic's scripts. They only ever write SQL text, which the engine then runs itself."""
