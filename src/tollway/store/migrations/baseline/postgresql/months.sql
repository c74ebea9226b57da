-- The tables that grow with traffic have one partition per month (UTC), so that an old month is
-- dropped as a whole. Rows without a month of their own go to `…_rest`.

-- Creates the partitions of the months that contain these moments, except those that exist or are
-- more than ten years ago or one year ahead. Rows of such a month move there from the rest, unless
-- there are so many that others would wait long for the lock. A lock that is not free within 300 ms
-- ends it: the month is created another time.
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
        -- Counted before the table is locked: a month with too many rows is tried again and again,
        -- and must not block others each time.
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
$$;

-- Blocks writes to a month until the end of the transaction.
CREATE FUNCTION tollway_lock_month(parent text, month text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'LOCK TABLE ' || quote_ident(parent || '_' || month) || ' IN SHARE MODE';
END
$$;

-- All readers of the table wait behind this, so it gives up soon.
CREATE FUNCTION tollway_drop_month(parent text, month text)
RETURNS void LANGUAGE plpgsql SET lock_timeout = '300ms' AS $$
BEGIN
    EXECUTE 'DROP TABLE ' || quote_ident(parent || '_' || month);
END
$$;

-- The default partitions. New months are created like them, with the same unique keys.
CREATE TABLE entry_rest PARTITION OF entry DEFAULT;
CREATE UNIQUE INDEX ON entry_rest (account_id, unit, number);

CREATE TABLE consent_use_rest PARTITION OF consent_use DEFAULT;
CREATE UNIQUE INDEX ON consent_use_rest (owner_kind, owner_id, consent_id, request_id);

CREATE TABLE refused_call_rest PARTITION OF refused_call DEFAULT;
CREATE UNIQUE INDEX ON refused_call_rest (account_id, request_id);

CREATE TABLE coupon_claim_rest PARTITION OF coupon_claim DEFAULT;
CREATE UNIQUE INDEX ON coupon_claim_rest (coupon_code);

CREATE TABLE shop_order_rest PARTITION OF shop_order DEFAULT;
CREATE UNIQUE INDEX ON shop_order_rest (owner_id, order_sn);

-- This month and the next two. The number is what the dividing column grows by in a second.
SELECT tollway_make_months(name, key, per_s, (
    SELECT array_agg(extract(epoch FROM now() + nth * interval '1 month')::bigint)
    FROM generate_series(0, 2) AS nth))
FROM (VALUES
    ('entry', 'at_ms', 1000),
    ('consent_use', 'at_ms', 1000),
    ('refused_call', 'at_ms', 1000),
    ('coupon_claim', 'newest_first', -1),
    ('shop_order', 'newest_first', -1000)) AS divided(name, key, per_s);
