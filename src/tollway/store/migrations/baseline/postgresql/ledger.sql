-- PostgreSQL, first part: the database itself, accounts and their money, consent.
--
-- The same tables as in SQLite. Text is ordered by its bytes (COLLATE "C"), as it is there,
-- whatever the language of the server. Tables that grow with traffic are partitioned by month: a
-- key without the partitioning column is unique within each partition only (months.sql).


-- The database itself ------------------------------------------------------------------------

-- One row: a process throws its cached rows away when their version changes.
CREATE TABLE version (
    id INTEGER NOT NULL,
    directory BIGINT NOT NULL,
    figures BIGINT NOT NULL,
    material BIGINT NOT NULL,
    PRIMARY KEY (id)
);
INSERT INTO version (id, directory, figures, material) VALUES (1, 0, 0, 0);

-- Every process that listens is notified when a version changes.
CREATE FUNCTION tollway_notify_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('tollway_changed', '');
    RETURN NULL;
END
$$;
CREATE TRIGGER version_changed AFTER UPDATE ON version FOR EACH ROW
    WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION tollway_notify_changed();

-- The processes that serve, and the newest schema that each of them knows.
CREATE TABLE node (
    id VARCHAR COLLATE "C" NOT NULL,
    name VARCHAR COLLATE "C" NOT NULL,
    version VARCHAR COLLATE "C" NOT NULL,
    knows_schema VARCHAR COLLATE "C" NOT NULL,
    knows_key BIGINT NOT NULL,
    seals_with BIGINT NOT NULL,
    seen_at_ms BIGINT NOT NULL,
    connections BIGINT,
    lag_ms BIGINT,
    PRIMARY KEY (id)
);

CREATE TABLE last_run (
    name VARCHAR COLLATE "C" NOT NULL,
    at_s BIGINT NOT NULL,
    is_good INTEGER NOT NULL,
    result VARCHAR COLLATE "C" NOT NULL,
    PRIMARY KEY (name)
);

-- One row: the oldest schema whose gateways can serve on this one.
CREATE TABLE schema_floor (
    id INTEGER NOT NULL,
    revision VARCHAR COLLATE "C" NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT schema_floor_one_row CHECK (id = 1)
);
INSERT INTO schema_floor (id, revision) VALUES (1, '0001');

-- Fingerprints of the keys that this database is used with; they decrypt nothing.
CREATE TABLE key_check (
    setting VARCHAR COLLATE "C" NOT NULL,
    key_id INTEGER NOT NULL,
    fingerprint BYTEA NOT NULL,
    PRIMARY KEY (setting, key_id)
);


-- Accounts and what they may call ------------------------------------------------------------

CREATE TABLE account (
    id VARCHAR COLLATE "C" NOT NULL,
    name VARCHAR COLLATE "C" NOT NULL,
    opened_at_s BIGINT NOT NULL,
    closed_at_s BIGINT,
    PRIMARY KEY (id),
    UNIQUE (name)
);

-- Only the hash of a token is stored, and its first characters to recognise it by.
CREATE TABLE token (
    hash BYTEA NOT NULL,
    id VARCHAR COLLATE "C" NOT NULL,
    account_id VARCHAR COLLATE "C" NOT NULL,
    kind VARCHAR COLLATE "C" NOT NULL,
    label VARCHAR COLLATE "C" NOT NULL,
    start VARCHAR COLLATE "C" NOT NULL,
    issued_at_s BIGINT NOT NULL,
    expires_at_s BIGINT,
    revoked_at_s BIGINT,
    last_used_at_s BIGINT,
    client_id VARCHAR COLLATE "C",
    operations VARCHAR COLLATE "C",
    networks VARCHAR COLLATE "C",
    credits_per_day BIGINT,
    calls_per_day BIGINT,
    counted_with VARCHAR COLLATE "C",
    PRIMARY KEY (hash),
    CONSTRAINT token_kind CHECK (kind IN ('live', 'test')),
    UNIQUE (id)
);
CREATE INDEX ix_token_account_id ON token (account_id);
-- Most tokens come from the operator and are in neither of these.
CREATE INDEX token_client ON token (client_id, issued_at_s) WHERE client_id IS NOT NULL;
CREATE INDEX token_client_expiry ON token (kind, expires_at_s) WHERE client_id IS NOT NULL;

-- What a token with a cap has spent in the day that began then.
CREATE TABLE token_day (
    token_id VARCHAR COLLATE "C" NOT NULL,
    day_at_ms BIGINT NOT NULL,
    credits BIGINT NOT NULL,
    calls BIGINT NOT NULL,
    PRIMARY KEY (token_id)
) WITH (fillfactor = 50);

-- What an account made free of charge in the day that began then.
CREATE TABLE account_day (
    account_id VARCHAR COLLATE "C" NOT NULL,
    counted VARCHAR COLLATE "C" NOT NULL,
    day_start_s BIGINT NOT NULL,
    number BIGINT NOT NULL,
    PRIMARY KEY (account_id, counted)
) WITH (fillfactor = 50);

-- The programs that obtain tokens themselves (OAuth 2 client credentials).
CREATE TABLE client (
    id VARCHAR COLLATE "C" NOT NULL,
    hash BYTEA NOT NULL,
    account_id VARCHAR COLLATE "C" NOT NULL,
    kind VARCHAR COLLATE "C" NOT NULL,
    label VARCHAR COLLATE "C" NOT NULL,
    start VARCHAR COLLATE "C" NOT NULL,
    added_at_s BIGINT NOT NULL,
    revoked_at_s BIGINT,
    PRIMARY KEY (id),
    CONSTRAINT client_kind CHECK (kind IN ('live', 'test')),
    UNIQUE (hash)
);
CREATE INDEX ix_client_account_id ON client (account_id);

-- An operation without a row is open, at the price of its descriptor.
CREATE TABLE operation_state (
    operation VARCHAR COLLATE "C" NOT NULL,
    is_closed INTEGER NOT NULL,
    price BIGINT,
    PRIMARY KEY (operation),
    CONSTRAINT operation_state_price CHECK (price >= 0)
);

-- Which account may call which operation; NULL means the common price or limit.
CREATE TABLE permission (
    account_id VARCHAR COLLATE "C" NOT NULL,
    operation VARCHAR COLLATE "C" NOT NULL,
    price BIGINT,
    rate_limit BIGINT,
    PRIMARY KEY (account_id, operation),
    CONSTRAINT permission_price CHECK (price >= 0),
    CONSTRAINT permission_rate_limit CHECK (rate_limit >= 1)
);


-- Money --------------------------------------------------------------------------------------

-- `amount` is available, `held` is reserved, `posted` was charged; `entries` counts the entries.
CREATE TABLE balance (
    account_id VARCHAR COLLATE "C" NOT NULL,
    unit VARCHAR COLLATE "C" NOT NULL,
    amount BIGINT NOT NULL,
    held BIGINT NOT NULL,
    posted BIGINT NOT NULL,
    entries BIGINT NOT NULL,
    PRIMARY KEY (account_id, unit),
    CONSTRAINT balance_amount CHECK (amount >= 0),
    CONSTRAINT balance_held CHECK (held >= 0),
    CONSTRAINT balance_posted CHECK (posted >= 0)
);

-- Every change of a balance, numbered without a gap.
CREATE TABLE entry (
    account_id VARCHAR COLLATE "C" NOT NULL,
    unit VARCHAR COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    kind VARCHAR COLLATE "C" NOT NULL,
    amount BIGINT NOT NULL,
    balance_after BIGINT NOT NULL,
    at_ms BIGINT NOT NULL,
    operation VARCHAR COLLATE "C",
    request_id VARCHAR COLLATE "C",
    token_id VARCHAR COLLATE "C",
    note VARCHAR COLLATE "C",
    CONSTRAINT entry_kind CHECK (
        kind = 'charge' OR kind = 'hold' OR kind = 'release' OR kind = 'top_up' OR kind = 'correction'
    )
) PARTITION BY RANGE (at_ms);
CREATE INDEX entry_request ON entry (request_id);

-- What the oldest entries of a balance added up to when they were dropped.
CREATE TABLE archived_balance (
    account_id VARCHAR COLLATE "C" NOT NULL,
    unit VARCHAR COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    balance_after BIGINT NOT NULL,
    at_ms BIGINT NOT NULL,
    top_up BIGINT NOT NULL,
    correction BIGINT NOT NULL,
    charge BIGINT NOT NULL,
    hold BIGINT NOT NULL,
    release BIGINT NOT NULL,
    waybills BIGINT NOT NULL,
    PRIMARY KEY (account_id, unit)
);

-- Credits reserved for a call whose outcome another system decides.
CREATE TABLE hold (
    account_id VARCHAR COLLATE "C" NOT NULL,
    id VARCHAR COLLATE "C" NOT NULL,
    unit VARCHAR COLLATE "C" NOT NULL,
    amount BIGINT NOT NULL,
    operation VARCHAR COLLATE "C" NOT NULL,
    request_id VARCHAR COLLATE "C" NOT NULL,
    token_id VARCHAR COLLATE "C" NOT NULL,
    at_ms BIGINT NOT NULL,
    deadline_at_ms BIGINT NOT NULL,
    state VARCHAR COLLATE "C" NOT NULL,
    settled_at_ms BIGINT,
    owner_kind VARCHAR COLLATE "C",
    owner_id VARCHAR COLLATE "C",
    consent_id VARCHAR COLLATE "C",
    key VARCHAR COLLATE "C",
    PRIMARY KEY (account_id, id),
    CONSTRAINT hold_amount CHECK (amount >= 0),
    CONSTRAINT hold_state CHECK (state = 'held' OR state = 'captured' OR state = 'released')
);
CREATE INDEX hold_request ON hold (request_id);
CREATE INDEX hold_open ON hold (deadline_at_ms) WHERE state = 'held';

-- The answers to calls with an Idempotency-Key; an empty `sealed` only reserves the key.
CREATE TABLE idempotency_key (
    account_id VARCHAR COLLATE "C" NOT NULL,
    key VARCHAR COLLATE "C" NOT NULL,
    request_id VARCHAR COLLATE "C" NOT NULL,
    at_ms BIGINT NOT NULL,
    fingerprint BYTEA NOT NULL,
    sealed BYTEA NOT NULL,
    PRIMARY KEY (account_id, key)
);
CREATE INDEX idempotency_key_at ON idempotency_key (at_ms);

-- What an agent's session has spent of its budget, calls and credits together.
CREATE TABLE agent_session (
    account_id VARCHAR COLLATE "C" NOT NULL,
    name VARCHAR COLLATE "C" NOT NULL,
    spent BIGINT NOT NULL,
    used_at_s BIGINT NOT NULL,
    PRIMARY KEY (account_id, name)
);

-- The calls of known accounts that were not charged, and why: refused, failed, free or replayed.
CREATE TABLE refused_call (
    account_id VARCHAR COLLATE "C" NOT NULL,
    request_id VARCHAR COLLATE "C" NOT NULL,
    at_ms BIGINT NOT NULL,
    operation VARCHAR COLLATE "C" NOT NULL,
    code BIGINT NOT NULL,
    reason VARCHAR COLLATE "C" NOT NULL,
    replay_of VARCHAR COLLATE "C",
    client_request_id VARCHAR COLLATE "C",
    is_test INTEGER NOT NULL,
    more BIGINT DEFAULT 0 NOT NULL,
    owner_kind VARCHAR COLLATE "C",
    owner_id VARCHAR COLLATE "C"
) PARTITION BY RANGE (at_ms);
CREATE INDEX refused_call_at ON refused_call (at_ms);

-- How long some calls were in each stage, as JSON; dropped after some days.
CREATE TABLE call_timing (
    request_id VARCHAR COLLATE "C" NOT NULL,
    account_id VARCHAR COLLATE "C" NOT NULL,
    stages VARCHAR COLLATE "C" NOT NULL,
    PRIMARY KEY (request_id)
);


-- Consent ------------------------------------------------------------------------------------

-- A shop, or a user of the marketplace.
CREATE TABLE owner (
    kind VARCHAR COLLATE "C" NOT NULL,
    id VARCHAR COLLATE "C" NOT NULL,
    name VARCHAR COLLATE "C" NOT NULL,
    shop_code VARCHAR COLLATE "C",
    login VARCHAR COLLATE "C" NOT NULL,
    password_hash VARCHAR COLLATE "C" NOT NULL,
    added_at_s BIGINT NOT NULL,
    PRIMARY KEY (kind, id),
    CONSTRAINT owner_kind CHECK (kind IN ('shop', 'user')),
    UNIQUE (login)
);

-- A grant; it stays when it has ended, so that its owner still sees it.
CREATE TABLE consent (
    owner_kind VARCHAR COLLATE "C" NOT NULL,
    owner_id VARCHAR COLLATE "C" NOT NULL,
    id VARCHAR COLLATE "C" NOT NULL,
    account_id VARCHAR COLLATE "C" NOT NULL,
    scope VARCHAR COLLATE "C" NOT NULL,
    granted_by VARCHAR COLLATE "C" NOT NULL,
    granted_at_s BIGINT NOT NULL,
    expires_at_s BIGINT,
    revoked_at_s BIGINT,
    extended_at_s BIGINT,
    extended_by VARCHAR COLLATE "C",
    PRIMARY KEY (owner_kind, owner_id, id),
    CONSTRAINT consent_granted_by CHECK (granted_by IN ('owner', 'operator')),
    CONSTRAINT consent_extended_by CHECK (extended_by IN ('owner', 'operator'))
);
CREATE UNIQUE INDEX consent_id ON consent (id);
CREATE INDEX consent_account ON consent (account_id, granted_at_s, id);
CREATE INDEX consent_granted ON consent (granted_at_s, id);

-- Every successful call under a grant. A repetition names the request that it repeats.
CREATE TABLE consent_use (
    owner_kind VARCHAR COLLATE "C" NOT NULL,
    owner_id VARCHAR COLLATE "C" NOT NULL,
    consent_id VARCHAR COLLATE "C" NOT NULL,
    request_id VARCHAR COLLATE "C" NOT NULL,
    at_ms BIGINT NOT NULL,
    operation VARCHAR COLLATE "C" NOT NULL,
    replay_of VARCHAR COLLATE "C",
    records BIGINT
) PARTITION BY RANGE (at_ms);

-- The last time that a shop had its receivers erased, and how many rows lost theirs so far.
CREATE TABLE receiver_erasure (
    owner_id VARCHAR COLLATE "C" NOT NULL,
    asked_at_s BIGINT NOT NULL,
    asked_by VARCHAR COLLATE "C" NOT NULL,
    last_change BIGINT NOT NULL,
    finished_at_s BIGINT,
    waiting BIGINT,
    orders BIGINT NOT NULL,
    waybills BIGINT NOT NULL,
    answers BIGINT NOT NULL,
    rejected BIGINT NOT NULL,
    read_before_ms BIGINT,
    PRIMARY KEY (owner_id)
);


-- People who sign in --------------------------------------------------------------------------

-- Who is signed in, until when; only the hash of the cookie is stored.
CREATE TABLE session (
    hash BYTEA NOT NULL,
    kind VARCHAR COLLATE "C" NOT NULL,
    subject_id VARCHAR COLLATE "C" NOT NULL,
    started_at_s BIGINT NOT NULL,
    seen_at_s BIGINT NOT NULL,
    expires_at_s BIGINT NOT NULL,
    ended_at_s BIGINT,
    PRIMARY KEY (hash),
    CONSTRAINT session_kind CHECK (
        kind = 'shop' OR kind = 'user' OR kind = 'operator' OR kind = 'member'
    )
);
CREATE INDEX session_subject ON session (kind, subject_id);
CREATE INDEX session_expiry ON session (expires_at_s);

-- How often a sign-in was tried lately; `counter` is the hash of a login, an address, or both.
CREATE TABLE sign_in_attempt (
    counter BYTEA NOT NULL,
    attempts BIGINT NOT NULL,
    began_at_s BIGINT NOT NULL,
    PRIMARY KEY (counter),
    CONSTRAINT sign_in_attempt_attempts CHECK (attempts >= 0)
);
CREATE INDEX sign_in_attempt_began ON sign_in_attempt (began_at_s);

-- Operators, and the members of accounts. A login is free again when its person was removed.
CREATE TABLE person (
    id VARCHAR COLLATE "C" NOT NULL,
    kind VARCHAR COLLATE "C" NOT NULL,
    account_id VARCHAR COLLATE "C",
    role VARCHAR COLLATE "C" NOT NULL,
    name VARCHAR COLLATE "C" NOT NULL,
    login VARCHAR COLLATE "C" NOT NULL,
    password_hash VARCHAR COLLATE "C",
    added_at_s BIGINT NOT NULL,
    removed_at_s BIGINT,
    PRIMARY KEY (id),
    CONSTRAINT person_kind CHECK (kind IN ('operator', 'member')),
    CONSTRAINT person_role CHECK (
        role = 'operator' OR role = 'owner' OR role = 'developer' OR role = 'reader'
    )
);
CREATE UNIQUE INDEX person_login ON person (kind, login) WHERE removed_at_s IS NULL;
CREATE INDEX person_account ON person (account_id);

-- The links that sign a person in once; only their hashes are stored.
CREATE TABLE sign_in_link (
    hash BYTEA NOT NULL,
    person_id VARCHAR COLLATE "C" NOT NULL,
    made_at_s BIGINT NOT NULL,
    expires_at_s BIGINT NOT NULL,
    used_at_s BIGINT,
    PRIMARY KEY (hash)
);

-- The second factor of a person who signs in: its secret is sealed, and no code of `last_step` or
-- before is accepted again.
CREATE TABLE second_factor (
    kind VARCHAR COLLATE "C" NOT NULL,
    subject_id VARCHAR COLLATE "C" NOT NULL,
    login VARCHAR COLLATE "C" NOT NULL,
    sealed_secret BYTEA NOT NULL,
    confirmed_at_s BIGINT,
    last_step BIGINT NOT NULL,
    PRIMARY KEY (kind, subject_id)
);
CREATE TABLE recovery_code (
    kind VARCHAR COLLATE "C" NOT NULL,
    subject_id VARCHAR COLLATE "C" NOT NULL,
    hash BYTEA NOT NULL,
    PRIMARY KEY (kind, subject_id, hash)
);


-- Operators' acts -----------------------------------------------------------------------------

-- Numbered without a gap, each with a hash over itself and the hash before it; rows stay as they
-- are for ever.
CREATE TABLE operator_act (
    number BIGINT NOT NULL,
    at_ms BIGINT NOT NULL,
    by VARCHAR COLLATE "C" NOT NULL,
    act VARCHAR COLLATE "C" NOT NULL,
    subject VARCHAR COLLATE "C" NOT NULL,
    before VARCHAR COLLATE "C",
    after VARCHAR COLLATE "C",
    hash BYTEA NOT NULL,
    PRIMARY KEY (number)
);
CREATE INDEX operator_act_subject ON operator_act (subject, number);
CREATE FUNCTION tollway_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the trail of acts is never changed';
END
$$;
CREATE TRIGGER operator_act_is_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON operator_act
    FOR EACH STATEMENT EXECUTE FUNCTION tollway_refuse_change();


-- Usage ----------------------------------------------------------------------------------------

-- Sums of charges by minute, hour and day, made after their commit. A day is stored under its date,
-- as if that were a day of UTC, so that it keeps the date whatever time zone is set later.
CREATE TABLE usage (
    span_s BIGINT NOT NULL,
    start_s BIGINT NOT NULL,
    account_id VARCHAR COLLATE "C" NOT NULL,
    unit VARCHAR COLLATE "C" NOT NULL,
    operation VARCHAR COLLATE "C" NOT NULL,
    calls BIGINT NOT NULL,
    amount BIGINT NOT NULL,
    PRIMARY KEY (span_s, start_s, account_id, unit, operation)
);
CREATE INDEX usage_account ON usage (account_id, span_s, start_s, calls, amount);

-- Up to which number the entries of a balance are in the sums.
CREATE TABLE usage_cursor (
    account_id VARCHAR COLLATE "C" NOT NULL,
    unit VARCHAR COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    skipped BIGINT NOT NULL,
    PRIMARY KEY (account_id, unit)
);

-- Sums of the entries of a balance up to the same number, by day of UTC, kind and operation.
CREATE TABLE entry_day (
    account_id VARCHAR COLLATE "C" NOT NULL,
    unit VARCHAR COLLATE "C" NOT NULL,
    day BIGINT NOT NULL,
    kind VARCHAR COLLATE "C" NOT NULL,
    operation VARCHAR COLLATE "C" NOT NULL,
    entries BIGINT NOT NULL,
    amount BIGINT NOT NULL,
    first_number BIGINT NOT NULL,
    last_number BIGINT NOT NULL,
    PRIMARY KEY (account_id, unit, day, kind, operation)
);
