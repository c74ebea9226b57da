-- A batch of charges in one round trip.

-- When calls were admitted in the last second, and how many at each of these moments: the rate
-- limit of all nodes. Half of each page is left free, so that a row is updated in place.
CREATE TABLE admission (
    account_id VARCHAR COLLATE "C" NOT NULL,
    operation VARCHAR COLLATE "C" NOT NULL,
    at_us BIGINT[] NOT NULL,
    counts BIGINT[] NOT NULL,
    PRIMARY KEY (account_id, operation)
) WITH (fillfactor = 50);

-- Locks balances, then windows, each in the order of their keys: this fixed lock order prevents
-- deadlocks.
CREATE FUNCTION tollway_lock(
    balance_accounts text[], balance_units text[],
    window_accounts text[], window_operations text[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM unnest(balance_accounts, balance_units) AS wanted(account_id, unit)
        JOIN balance USING (account_id, unit)
        ORDER BY balance.account_id, balance.unit FOR UPDATE OF balance;
    INSERT INTO admission (account_id, operation, at_us, counts)
        SELECT account_id, operation, '{}', '{}'
        FROM unnest(window_accounts, window_operations) AS wanted(account_id, operation)
        ORDER BY account_id COLLATE "C", operation COLLATE "C"
        ON CONFLICT DO NOTHING;
    PERFORM FROM unnest(window_accounts, window_operations) AS wanted(account_id, operation)
        JOIN admission USING (account_id, operation)
        ORDER BY admission.account_id, admission.operation FOR UPDATE OF admission;
END
$$;

-- Charges come as columns. Each balance and each window comes once; `of_balance` and `of_window`
-- give the one that a charge belongs to, counted from 1 (0: none). No key comes twice. Returned are
-- only the charges that were not done, with the reason:
--   'kept'       the key was used before; with the answer stored then
--   'throttled'  over the limit; `detail` is the wait in microseconds
--   'short'      `detail` is the balance that is left
--   'busy'       only if not `waits`: another transaction has locked the balance or the window
-- If not `waits`, a lock that cannot be skipped (such as that of a key under which another
-- transaction is storing an answer) is waited for 10 ms; then the batch fails, with no effect.
CREATE FUNCTION tollway_charge(
    balance_accounts text[], balance_units text[],
    window_accounts text[], window_operations text[],
    accounts text[], units text[], amounts bigint[], operations text[],
    request_ids text[], token_ids text[],
    of_balance int[], of_window int[], limits bigint[],
    owner_kinds text[], owner_ids text[], consent_ids text[], replays_of text[],
    records bigint[],
    keys text[], fingerprints bytea[], answers bytea[], kept_ms bigint,
    waits boolean
) RETURNS TABLE (
    nth bigint, outcome text, detail bigint, request_id text, fingerprint bytea, sealed bytea
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    now_us bigint;
    now_ms bigint;
    amounts_left bigint[] := array_fill(0::bigint, ARRAY[cardinality(balance_accounts)]);
    -- NULL: not locked by this transaction, so it is not written.
    entry_counts bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(balance_accounts)]);
    admitted bigint[] := array_fill(0::bigint, ARRAY[cardinality(window_accounts)]);
    added bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(window_accounts)]);
    waits_us bigint[] := array_fill(1000000::bigint, ARRAY[cardinality(window_accounts)]);
    outcomes text[] := array_fill(NULL::text, ARRAY[cardinality(accounts)]);
    details bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(accounts)]);
    numbers bigint[] := details;
    amounts_after bigint[] := details;
    is_any_refused boolean := false;
    missing int := cardinality(balance_accounts) + cardinality(window_accounts);
    patience text;
    found record;
    b int;
    w int;
    stored bigint;
BEGIN
    IF waits THEN
        PERFORM tollway_lock(balance_accounts, balance_units, window_accounts, window_operations);
    ELSE
        patience := set_config('lock_timeout', '10ms', true);
    END IF;
    FOR found IN
        SELECT wanted.nth, balance.amount, balance.entries
        FROM unnest(balance_accounts, balance_units)
            WITH ORDINALITY AS wanted(account_id, unit, nth)
        JOIN balance USING (account_id, unit)
        ORDER BY balance.account_id, balance.unit FOR UPDATE OF balance SKIP LOCKED
    LOOP
        amounts_left[found.nth] := found.amount;
        entry_counts[found.nth] := found.entries;
        missing := missing - 1;
    END LOOP;
    FOR found IN
        SELECT wanted.nth
        FROM unnest(window_accounts, window_operations)
            WITH ORDINALITY AS wanted(account_id, operation, nth)
        JOIN admission USING (account_id, operation)
        ORDER BY admission.account_id, admission.operation FOR UPDATE OF admission SKIP LOCKED
    LOOP
        added[found.nth] := 0;
        missing := missing - 1;
    END LOOP;
    IF missing > 0 THEN
        BEGIN
            INSERT INTO admission (account_id, operation, at_us, counts)
                SELECT account_id, operation, '{}', '{}'
                FROM unnest(window_accounts, window_operations) AS wanted(account_id, operation)
                WHERE NOT EXISTS (
                    SELECT FROM admission
                    WHERE admission.account_id = wanted.account_id
                        AND admission.operation = wanted.operation)
                ORDER BY account_id COLLATE "C", operation COLLATE "C"
                ON CONFLICT DO NOTHING;
        EXCEPTION WHEN lock_not_available THEN
            NULL; -- Another transaction is inserting one of them.
        END;
        FOR found IN
            SELECT wanted.nth
            FROM unnest(window_accounts, window_operations, added)
                WITH ORDINALITY AS wanted(account_id, operation, added, nth)
            JOIN admission USING (account_id, operation)
            WHERE wanted.added IS NULL
            ORDER BY admission.account_id, admission.operation FOR UPDATE OF admission SKIP LOCKED
        LOOP
            added[found.nth] := 0;
        END LOOP;
        -- A balance that does not exist is not locked by another transaction.
        FOR found IN
            SELECT charge.nth
            FROM unnest(accounts, units, of_balance, of_window)
                WITH ORDINALITY AS charge(account_id, unit, b, w, nth)
            WHERE w > 0 AND added[w] IS NULL
                OR b > 0 AND entry_counts[b] IS NULL AND EXISTS (
                    SELECT FROM balance
                    WHERE balance.account_id = charge.account_id AND balance.unit = charge.unit)
        LOOP
            outcomes[found.nth] := 'busy';
            is_any_refused := true;
        END LOOP;
    END IF;
    -- After the locks, so that the times within a window are in the order of the commits.
    now_us := extract(epoch FROM clock_timestamp()) * 1000000;
    now_ms := now_us / 1000;

    FOR found IN
        SELECT wanted.nth, sum(one.admitted) AS admitted, min(one.at) AS oldest
        FROM unnest(window_accounts, window_operations)
            WITH ORDINALITY AS wanted(account_id, operation, nth)
        JOIN admission USING (account_id, operation)
        CROSS JOIN unnest(admission.at_us, admission.counts) AS one(at, admitted)
        WHERE one.at > now_us - 1000000
        GROUP BY wanted.nth
    LOOP
        admitted[found.nth] := found.admitted;
        waits_us[found.nth] := least(found.oldest, now_us) + 1000000 - now_us;
    END LOOP;
    IF keys IS NOT NULL THEN
        FOR found IN
            SELECT given.nth, idempotency_key.request_id, idempotency_key.fingerprint,
                idempotency_key.sealed
            FROM unnest(accounts, keys) WITH ORDINALITY AS given(account_id, key, nth)
            JOIN idempotency_key USING (account_id, key)
            WHERE idempotency_key.at_ms > now_ms - kept_ms
        LOOP
            -- The stored answer is returned instead of the new one.
            outcomes[found.nth] := 'kept';
            request_ids[found.nth] := found.request_id;
            fingerprints[found.nth] := found.fingerprint;
            answers[found.nth] := found.sealed;
            is_any_refused := true;
        END LOOP;
    END IF;

    FOR i IN 1 .. cardinality(accounts) LOOP
        b := of_balance[i];
        w := of_window[i];
        IF outcomes[i] IS NOT NULL THEN
            CONTINUE;
        ELSIF w > 0 AND admitted[w] >= limits[i] THEN
            outcomes[i] := 'throttled';
            details[i] := waits_us[w];
            is_any_refused := true;
            CONTINUE;
        ELSIF b > 0 THEN
            IF amounts_left[b] < amounts[i] THEN
                outcomes[i] := 'short';
                details[i] := amounts_left[b];
                is_any_refused := true;
                CONTINUE;
            END IF;
            amounts_left[b] := amounts_left[b] - amounts[i];
            entry_counts[b] := entry_counts[b] + 1;
            numbers[i] := entry_counts[b];
            amounts_after[i] := amounts_left[b];
        END IF;
        IF w > 0 THEN
            admitted[w] := admitted[w] + 1;
            added[w] := added[w] + 1;
        END IF;
    END LOOP;

    UPDATE balance
        SET amount = new.amount, posted = posted + balance.amount - new.amount,
            entries = new.entries
        FROM unnest(balance_accounts, balance_units, amounts_left, entry_counts)
            AS new(account_id, unit, amount, entries)
        WHERE balance.account_id = new.account_id AND balance.unit = new.unit
            AND balance.entries <> new.entries;
    INSERT INTO entry (account_id, unit, number, kind, amount, balance_after, at_ms, operation,
            request_id, token_id)
        SELECT account_id, unit, number, 'charge', -amount, amount_after, now_ms, operation,
            request_id, token_id
        FROM unnest(accounts, units, numbers, amounts, amounts_after, operations, request_ids,
                token_ids)
            AS new(account_id, unit, number, amount, amount_after, operation, request_id, token_id)
        WHERE number IS NOT NULL;
    -- A clock that was set back must not close a window until it has caught up: a time in the
    -- future counts as now.
    UPDATE admission
        SET (at_us, counts) = (
            SELECT coalesce(array_agg(one.at), '{}'), coalesce(array_agg(one.admitted), '{}')
            FROM (
                SELECT least(before.at, now_us), before.admitted
                FROM unnest(admission.at_us, admission.counts) AS before(at, admitted)
                WHERE before.at > now_us - 1000000
                UNION ALL SELECT now_us, new.added WHERE new.added > 0
            ) AS one(at, admitted))
        FROM unnest(window_accounts, window_operations, added)
            AS new(account_id, operation, added)
        WHERE admission.account_id = new.account_id AND admission.operation = new.operation
            AND (new.added > 0 OR
                new.added = 0 AND admission.at_us[cardinality(admission.at_us)] > now_us);
    IF owner_kinds IS NOT NULL THEN
        INSERT INTO consent_use
                (owner_kind, owner_id, consent_id, request_id, at_ms, operation, replay_of, records)
            SELECT owner_kind, owner_id, consent_id, request_id, now_ms, operation, replay_of,
                new.got
            FROM unnest(owner_kinds, owner_ids, consent_ids, request_ids, operations, replays_of,
                    records, outcomes)
                AS new(owner_kind, owner_id, consent_id, request_id, operation, replay_of, got,
                    outcome)
            WHERE owner_kind IS NOT NULL AND outcome IS NULL;
    END IF;
    IF keys IS NOT NULL THEN
        INSERT INTO idempotency_key AS kept
                (account_id, key, request_id, at_ms, fingerprint, sealed)
            SELECT account_id, key, request_id, now_ms, fingerprint, sealed
            FROM unnest(accounts, keys, request_ids, fingerprints, answers, outcomes)
                AS new(account_id, key, request_id, fingerprint, sealed, outcome)
            WHERE key IS NOT NULL AND outcome IS NULL
            ORDER BY account_id COLLATE "C", key COLLATE "C"
            -- Replaces an answer that has expired but is not deleted yet.
            ON CONFLICT (account_id, key) DO UPDATE
                SET request_id = excluded.request_id, at_ms = excluded.at_ms,
                    fingerprint = excluded.fingerprint, sealed = excluded.sealed
                WHERE kept.at_ms <= now_ms - kept_ms;
        GET DIAGNOSTICS stored = ROW_COUNT;
        IF stored <> (
            SELECT count(*) FROM unnest(keys, outcomes) AS new(key, outcome)
            WHERE key IS NOT NULL AND outcome IS NULL
        ) THEN
            RAISE 'another transaction kept an answer under the same key first'
                USING ERRCODE = 'serialization_failure';
        END IF;
    END IF;
    IF is_any_refused THEN
        RETURN QUERY
            SELECT nth, outcome, detail, request_id, fingerprint, sealed
            FROM unnest(outcomes, details, request_ids, fingerprints, answers) WITH ORDINALITY
                AS refused(outcome, detail, request_id, fingerprint, sealed, nth)
            WHERE outcome IS NOT NULL;
    END IF;
END
$$;
