"""The engine for several nodes: PostgreSQL through asyncpg, with any number of gateways."""
