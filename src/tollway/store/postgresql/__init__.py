"""The engine for several nodes: PostgreSQL through asyncpg, any number of gateways on one."""
