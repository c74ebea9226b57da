"""On PostgreSQL, what grows with traffic is divided by month, so that a month goes as a whole."""

from typing import NamedTuple

from alembic import op

revision = "0013"
down_revision = "0012"


class _Divided(NamedTuple):
    """A table, the column that divides it, and what that column adds in a second.

    A key over all months must have that column in it; where it has not, `apart` is unique within
    each month alone.
    """

    name: str
    column: str
    per_s: int
    apart: str
    key: str = ""
    indexes: tuple[str, ...] = ()


_TABLES = (
    _Divided(
        "entry",
        "at_ms",
        1000,
        "account_id, unit, number",
        indexes=("entry_request ON entry (request_id)",),
    ),
    _Divided(
        "consent_use",
        "at_ms",
        1000,
        "owner_kind, owner_id, consent_id, request_id",
    ),
    _Divided(
        "refused_call",
        "at_ms",
        1000,
        "account_id, request_id",
        indexes=("refused_call_at ON refused_call (at_ms)",),
    ),
    _Divided(
        "coupon_claim",
        "newest_first",
        -1,
        "coupon_code",
        "sid, claim_type, newest_first, coupon_code",
    ),
    _Divided(
        "shop_order",
        "newest_first",
        -1000,
        "owner_id, order_sn",
        "owner_id, newest_first, order_sn",
        (
            "shop_order_tag ON shop_order (owner_id, remark_tag, newest_first, order_sn) "
            "WHERE remark_tag IS NOT NULL",
            "shop_order_tag_name ON shop_order (owner_id, remark_tag_name, newest_first, order_sn) "
            "WHERE remark_tag_name IS NOT NULL",
            "shop_order_tag_both ON shop_order (owner_id, remark_tag_name, remark_tag, "
            "newest_first, order_sn) WHERE remark_tag_name IS NOT NULL",
            "shop_order_remark ON shop_order (owner_id, newest_first, order_sn, remark, "
            "remark_tag, remark_tag_name) WHERE remark IS NOT NULL",
        ),
    ),
)


def upgrade() -> None:
    if op.get_context().dialect.name != "postgresql":
        return
    op.execute(_MAKE_MONTHS)
    op.execute(_LOCK_MONTH)
    op.execute(_DROP_MONTH)
    for table in _TABLES:
        _divide(table)


def _divide(table: _Divided) -> None:
    """Puts a divided table in the place of the one before, with all that it has."""
    name, before = table.name, f"{table.name}_before"
    op.execute(f"ALTER TABLE {name} RENAME TO {before}")
    for index in table.indexes:
        op.execute(f"DROP INDEX {index.partition(' ')[0]}")
    key = f", PRIMARY KEY ({table.key})" if table.key else ""
    op.execute(
        f"CREATE TABLE {name} (LIKE {before} INCLUDING CONSTRAINTS{key}) "
        f"PARTITION BY RANGE ({table.column})"
    )
    for index in table.indexes:
        op.execute(f"CREATE INDEX {index}")
    # Whatever has no month of its own. New months are made like this one.
    op.execute(f"CREATE TABLE {name}_rest PARTITION OF {name} DEFAULT")
    op.execute(f"CREATE UNIQUE INDEX ON {name}_rest ({table.apart})")
    months = f"tollway_make_months('{name}', '{table.column}', {table.per_s}, "
    op.execute(
        f"SELECT {months} array_agg(DISTINCT {table.column} / {table.per_s} / 86400 * 86400)) "  # noqa: S608
        f"FROM {before}"
    )
    op.execute(f"SELECT {months} {_AHEAD})")
    op.execute(f"INSERT INTO {name} SELECT * FROM {before}")  # noqa: S608
    op.execute(f"DROP TABLE {before}")


# This month and two more.
_AHEAD = """(
    SELECT array_agg(extract(epoch FROM now() + nth * interval '1 month')::bigint)
    FROM generate_series(0, 2) AS nth)"""

# Makes the months that moments lie in, but for those that are there or are very far away. What the
# rest has of a month goes to it, unless that is so much that others would wait for it. Who cannot
# have the locks at once leaves a month for another time.
_MAKE_MONTHS = """
CREATE FUNCTION tollway_make_months(parent text, key text, per_s bigint, moments_s bigint[])
RETURNS void LANGUAGE plpgsql SET lock_timeout = '300ms' SET client_min_messages = 'error' AS $$
DECLARE
    now_s bigint := extract(epoch FROM now());
    rest text := quote_ident(parent || '_rest');
    month timestamp;
    name text;
    first_s bigint;
    end_s bigint;
    lowest bigint;
    beyond bigint;
    of_month text;
    strays bigint;
BEGIN
    FOR month IN
        SELECT DISTINCT date_trunc('month', to_timestamp(moment_s) AT TIME ZONE 'UTC')
        FROM unnest(moments_s) AS moment_s
        WHERE moment_s BETWEEN now_s - 10 * 31557600 AND now_s + 31557600
        ORDER BY 1
    LOOP
        name := quote_ident(parent || '_' || to_char(month, 'YYYYMM'));
        IF to_regclass(name) IS NOT NULL THEN
            CONTINUE;
        END IF;
        first_s := extract(epoch FROM month);
        end_s := extract(epoch FROM month + interval '1 month');
        IF per_s > 0 THEN
            lowest := first_s * per_s;
            beyond := end_s * per_s;
        ELSE
            lowest := end_s * per_s + 1;
            beyond := first_s * per_s + 1;
        END IF;
        of_month := ' FROM ' || rest || ' WHERE ' || quote_ident(key) || ' >= ' || lowest
            || ' AND ' || quote_ident(key) || ' < ' || beyond;
        PERFORM pg_advisory_xact_lock(7012605121);
        -- Before the lock: whoever finds too many each time must not hold others up each time.
        EXECUTE 'SELECT count(*) FROM (SELECT' || of_month || ' LIMIT 10001) AS few' INTO strays;
        CONTINUE WHEN strays > 10000;
        EXECUTE 'LOCK TABLE ' || rest || ' IN ACCESS EXCLUSIVE MODE';
        CONTINUE WHEN to_regclass(name) IS NOT NULL;
        EXECUTE 'CREATE TABLE ' || name || ' (LIKE ' || rest || ' INCLUDING ALL)';
        EXECUTE 'WITH stray AS (DELETE' || of_month || ' RETURNING *) INSERT INTO ' || name
            || ' SELECT * FROM stray';
        EXECUTE 'ALTER TABLE ' || quote_ident(parent) || ' ATTACH PARTITION ' || name
            || ' FOR VALUES FROM (' || lowest || ') TO (' || beyond || ')';
    END LOOP;
END
$$"""

# From now on nothing more is written to the month.
_LOCK_MONTH = """
CREATE FUNCTION tollway_lock_month(parent text, month text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'LOCK TABLE ' || quote_ident(parent || '_' || month) || ' IN SHARE MODE';
END
$$"""

# Everybody who reads the table waits meanwhile, and so nobody for long.
_DROP_MONTH = """
CREATE FUNCTION tollway_drop_month(parent text, month text)
RETURNS void LANGUAGE plpgsql SET lock_timeout = '300ms' AS $$
BEGIN
    EXECUTE 'DROP TABLE ' || quote_ident(parent || '_' || month);
END
$$"""
