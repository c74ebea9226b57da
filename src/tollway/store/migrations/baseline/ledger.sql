-- The database itself, accounts and their money, consent.
--
-- For both engines, as SQLite takes it: migrations/__init__.py translates it for PostgreSQL. A line
-- that begins with an engine's name is for that engine alone.
--
-- Times and amounts have their unit in the name; 1 credit is 1 fen. In SQLite, tables that grow are
-- stored in the order of their key (WITHOUT ROWID), because a call reads a run of neighbours. In
-- PostgreSQL, tables that grow with traffic are partitioned by month: a key without the partitioning
-- column is unique within each partition only (postgresql/months.sql).


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

-- The processes that serve, and the newest schema that each of them knows.
CREATE TABLE node (
    id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    version VARCHAR NOT NULL,
    knows_schema VARCHAR NOT NULL,
    knows_key BIGINT NOT NULL,
    seals_with BIGINT NOT NULL,
    seen_at_ms BIGINT NOT NULL,
    connections BIGINT,
    lag_ms BIGINT,
    PRIMARY KEY (id)
) WITHOUT ROWID;

CREATE TABLE last_run (
    name VARCHAR NOT NULL,
    at_s BIGINT NOT NULL,
    is_good INTEGER NOT NULL,
    result VARCHAR NOT NULL,
    PRIMARY KEY (name)
) WITHOUT ROWID;

-- One row: the oldest schema whose gateways can serve on this one.
CREATE TABLE schema_floor (
    id INTEGER NOT NULL,
    revision VARCHAR NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT schema_floor_one_row CHECK (id = 1)
);
INSERT INTO schema_floor (id, revision) VALUES (1, '0001');

-- Fingerprints of the keys that this database is used with; they decrypt nothing.
CREATE TABLE key_check (
    setting VARCHAR NOT NULL,
    key_id INTEGER NOT NULL,
    fingerprint BLOB NOT NULL,
    PRIMARY KEY (setting, key_id)
) WITHOUT ROWID;


-- Accounts and what they may call ------------------------------------------------------------

CREATE TABLE account (
    id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    opened_at_s BIGINT NOT NULL,
    closed_at_s BIGINT,
    PRIMARY KEY (id),
    UNIQUE (name)
) WITHOUT ROWID;

-- Only the hash of a token is stored, and its first characters to recognise it by.
CREATE TABLE token (
    hash BLOB NOT NULL,
    id VARCHAR NOT NULL,
    account_id VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    label VARCHAR NOT NULL,
    start VARCHAR NOT NULL,
    issued_at_s BIGINT NOT NULL,
    expires_at_s BIGINT,
    revoked_at_s BIGINT,
    last_used_at_s BIGINT,
    client_id VARCHAR,
    operations VARCHAR,
    networks VARCHAR,
    credits_per_day BIGINT,
    calls_per_day BIGINT,
    counted_with VARCHAR,
    PRIMARY KEY (hash),
    CONSTRAINT token_kind CHECK (kind IN ('live', 'test')),
    UNIQUE (id)
) WITHOUT ROWID;
CREATE INDEX ix_token_account_id ON token (account_id);
-- Most tokens come from the operator and are in neither of these.
CREATE INDEX token_client ON token (client_id, issued_at_s) WHERE client_id IS NOT NULL;
CREATE INDEX token_client_expiry ON token (kind, expires_at_s) WHERE client_id IS NOT NULL;

-- What a token with a cap has spent in the day that began then.
CREATE TABLE token_day (
    token_id VARCHAR NOT NULL,
    day_at_ms BIGINT NOT NULL,
    credits BIGINT NOT NULL,
    calls BIGINT NOT NULL,
    PRIMARY KEY (token_id)
/*sqlite*/) WITHOUT ROWID;
/*postgresql*/) WITH (fillfactor = 50);

-- What an account made free of charge in the day that began then.
CREATE TABLE account_day (
    account_id VARCHAR NOT NULL,
    counted VARCHAR NOT NULL,
    day_start_s BIGINT NOT NULL,
    number BIGINT NOT NULL,
    PRIMARY KEY (account_id, counted)
/*sqlite*/) WITHOUT ROWID;
/*postgresql*/) WITH (fillfactor = 50);

-- The programs that obtain tokens themselves (OAuth 2 client credentials).
CREATE TABLE client (
    id VARCHAR NOT NULL,
    hash BLOB NOT NULL,
    account_id VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    label VARCHAR NOT NULL,
    start VARCHAR NOT NULL,
    added_at_s BIGINT NOT NULL,
    revoked_at_s BIGINT,
    PRIMARY KEY (id),
    CONSTRAINT client_kind CHECK (kind IN ('live', 'test')),
    UNIQUE (hash)
) WITHOUT ROWID;
CREATE INDEX ix_client_account_id ON client (account_id);

-- An operation without a row is open, at the price of its descriptor.
CREATE TABLE operation_state (
    operation VARCHAR NOT NULL,
    is_closed INTEGER NOT NULL,
    price BIGINT,
    PRIMARY KEY (operation),
    CONSTRAINT operation_state_price CHECK (price >= 0)
) WITHOUT ROWID;

-- Which account may call which operation; NULL means the common price or limit.
CREATE TABLE permission (
    account_id VARCHAR NOT NULL,
    operation VARCHAR NOT NULL,
    price BIGINT,
    rate_limit BIGINT,
    PRIMARY KEY (account_id, operation),
    CONSTRAINT permission_price CHECK (price >= 0),
    CONSTRAINT permission_rate_limit CHECK (rate_limit >= 1)
) WITHOUT ROWID;


-- Money --------------------------------------------------------------------------------------

-- `amount` is available, `held` is reserved, `posted` was charged; `entries` counts the entries.
CREATE TABLE balance (
    account_id VARCHAR NOT NULL,
    unit VARCHAR NOT NULL,
    amount BIGINT NOT NULL,
    held BIGINT NOT NULL,
    posted BIGINT NOT NULL,
    entries BIGINT NOT NULL,
    PRIMARY KEY (account_id, unit),
    CONSTRAINT balance_amount CHECK (amount >= 0),
    CONSTRAINT balance_held CHECK (held >= 0),
    CONSTRAINT balance_posted CHECK (posted >= 0)
) WITHOUT ROWID;

-- Every change of a balance, numbered without a gap.
CREATE TABLE entry (
    account_id VARCHAR NOT NULL,
    unit VARCHAR NOT NULL,
    number BIGINT NOT NULL,
    kind VARCHAR NOT NULL,
    amount BIGINT NOT NULL,
    balance_after BIGINT NOT NULL,
    at_ms BIGINT NOT NULL,
    operation VARCHAR,
    request_id VARCHAR,
    token_id VARCHAR,
    note VARCHAR,
/*sqlite*/    PRIMARY KEY (account_id, unit, number),
    CONSTRAINT entry_kind CHECK (
        kind = 'charge' OR kind = 'hold' OR kind = 'release' OR kind = 'top_up' OR kind = 'correction'
    )
/*sqlite*/) WITHOUT ROWID;
/*postgresql*/) PARTITION BY RANGE (at_ms);
CREATE INDEX entry_request ON entry (request_id);

-- What the oldest entries of a balance added up to when they were dropped.
CREATE TABLE archived_balance (
    account_id VARCHAR NOT NULL,
    unit VARCHAR NOT NULL,
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
) WITHOUT ROWID;

-- Credits reserved for a call whose outcome another system decides.
CREATE TABLE hold (
    account_id VARCHAR NOT NULL,
    id VARCHAR NOT NULL,
    unit VARCHAR NOT NULL,
    amount BIGINT NOT NULL,
    operation VARCHAR NOT NULL,
    request_id VARCHAR NOT NULL,
    token_id VARCHAR NOT NULL,
    at_ms BIGINT NOT NULL,
    deadline_at_ms BIGINT NOT NULL,
    state VARCHAR NOT NULL,
    settled_at_ms BIGINT,
    owner_kind VARCHAR,
    owner_id VARCHAR,
    consent_id VARCHAR,
    key VARCHAR,
    PRIMARY KEY (account_id, id),
    CONSTRAINT hold_amount CHECK (amount >= 0),
    CONSTRAINT hold_state CHECK (state = 'held' OR state = 'captured' OR state = 'released')
) WITHOUT ROWID;
CREATE INDEX hold_request ON hold (request_id);
CREATE INDEX hold_open ON hold (deadline_at_ms) WHERE state = 'held';

-- The answers to calls with an Idempotency-Key; an empty `sealed` only reserves the key.
CREATE TABLE idempotency_key (
    account_id VARCHAR NOT NULL,
    key VARCHAR NOT NULL,
    request_id VARCHAR NOT NULL,
    at_ms BIGINT NOT NULL,
    fingerprint BLOB NOT NULL,
    sealed BLOB NOT NULL,
    PRIMARY KEY (account_id, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_key_at ON idempotency_key (at_ms);

-- What an agent's session has spent of its budget, calls and credits together.
CREATE TABLE agent_session (
    account_id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    spent BIGINT NOT NULL,
    used_at_s BIGINT NOT NULL,
    PRIMARY KEY (account_id, name)
) WITHOUT ROWID;

-- The calls of known accounts that were not charged, and why: refused, failed, free or replayed.
CREATE TABLE refused_call (
    account_id VARCHAR NOT NULL,
    request_id VARCHAR NOT NULL,
    at_ms BIGINT NOT NULL,
    operation VARCHAR NOT NULL,
    code BIGINT NOT NULL,
    reason VARCHAR NOT NULL,
    replay_of VARCHAR,
    client_request_id VARCHAR,
    is_test INTEGER NOT NULL,
    more BIGINT DEFAULT 0 NOT NULL,
    owner_kind VARCHAR,
/*sqlite*/    owner_id VARCHAR,
/*sqlite*/    PRIMARY KEY (account_id, request_id)
/*sqlite*/) WITHOUT ROWID;
/*postgresql*/    owner_id VARCHAR
/*postgresql*/) PARTITION BY RANGE (at_ms);
CREATE INDEX refused_call_at ON refused_call (at_ms);

-- How long some calls were in each stage, as JSON; dropped after some days.
CREATE TABLE call_timing (
    request_id VARCHAR NOT NULL,
    account_id VARCHAR NOT NULL,
    stages VARCHAR NOT NULL,
    PRIMARY KEY (request_id)
) WITHOUT ROWID;


-- Consent ------------------------------------------------------------------------------------

-- A shop, or a user of the marketplace.
CREATE TABLE owner (
    kind VARCHAR NOT NULL,
    id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    shop_code VARCHAR,
    login VARCHAR NOT NULL,
    password_hash VARCHAR NOT NULL,
    added_at_s BIGINT NOT NULL,
    PRIMARY KEY (kind, id),
    CONSTRAINT owner_kind CHECK (kind IN ('shop', 'user')),
    UNIQUE (login)
) WITHOUT ROWID;

-- A grant; it stays when it has ended, so that its owner still sees it.
CREATE TABLE consent (
    owner_kind VARCHAR NOT NULL,
    owner_id VARCHAR NOT NULL,
    id VARCHAR NOT NULL,
    account_id VARCHAR NOT NULL,
    scope VARCHAR NOT NULL,
    granted_by VARCHAR NOT NULL,
    granted_at_s BIGINT NOT NULL,
    expires_at_s BIGINT,
    revoked_at_s BIGINT,
    extended_at_s BIGINT,
    extended_by VARCHAR,
    PRIMARY KEY (owner_kind, owner_id, id),
    CONSTRAINT consent_granted_by CHECK (granted_by IN ('owner', 'operator')),
    CONSTRAINT consent_extended_by CHECK (extended_by IN ('owner', 'operator'))
) WITHOUT ROWID;
CREATE UNIQUE INDEX consent_id ON consent (id);
CREATE INDEX consent_account ON consent (account_id, granted_at_s, id);
CREATE INDEX consent_granted ON consent (granted_at_s, id);

-- Every successful call under a grant. A repetition names the request that it repeats.
CREATE TABLE consent_use (
    owner_kind VARCHAR NOT NULL,
    owner_id VARCHAR NOT NULL,
    consent_id VARCHAR NOT NULL,
    request_id VARCHAR NOT NULL,
    at_ms BIGINT NOT NULL,
    operation VARCHAR NOT NULL,
    replay_of VARCHAR,
/*sqlite*/    records BIGINT,
/*sqlite*/    PRIMARY KEY (owner_kind, owner_id, consent_id, request_id)
/*sqlite*/) WITHOUT ROWID;
/*postgresql*/    records BIGINT
/*postgresql*/) PARTITION BY RANGE (at_ms);

-- The last time that a shop had its receivers erased, and how many rows lost theirs so far.
CREATE TABLE receiver_erasure (
    owner_id VARCHAR NOT NULL,
    asked_at_s BIGINT NOT NULL,
    asked_by VARCHAR NOT NULL,
    last_change BIGINT NOT NULL,
    finished_at_s BIGINT,
    waiting BIGINT,
    orders BIGINT NOT NULL,
    waybills BIGINT NOT NULL,
    answers BIGINT NOT NULL,
    rejected BIGINT NOT NULL,
    read_before_ms BIGINT,
    PRIMARY KEY (owner_id)
) WITHOUT ROWID;


-- People who sign in --------------------------------------------------------------------------

-- Who is signed in, until when; only the hash of the cookie is stored.
CREATE TABLE session (
    hash BLOB NOT NULL,
    kind VARCHAR NOT NULL,
    subject_id VARCHAR NOT NULL,
    started_at_s BIGINT NOT NULL,
    seen_at_s BIGINT NOT NULL,
    expires_at_s BIGINT NOT NULL,
    ended_at_s BIGINT,
    PRIMARY KEY (hash),
    CONSTRAINT session_kind CHECK (
        kind = 'shop' OR kind = 'user' OR kind = 'operator' OR kind = 'member'
    )
) WITHOUT ROWID;
CREATE INDEX session_subject ON session (kind, subject_id);
CREATE INDEX session_expiry ON session (expires_at_s);

-- How often a sign-in was tried lately; `counter` is the hash of a login, an address, or both.
CREATE TABLE sign_in_attempt (
    counter BLOB NOT NULL,
    attempts BIGINT NOT NULL,
    began_at_s BIGINT NOT NULL,
    PRIMARY KEY (counter),
    CONSTRAINT sign_in_attempt_attempts CHECK (attempts >= 0)
) WITHOUT ROWID;
CREATE INDEX sign_in_attempt_began ON sign_in_attempt (began_at_s);

-- Operators, and the members of accounts. A login is free again when its person was removed.
CREATE TABLE person (
    id VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    account_id VARCHAR,
    role VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    login VARCHAR NOT NULL,
    password_hash VARCHAR,
    added_at_s BIGINT NOT NULL,
    removed_at_s BIGINT,
    PRIMARY KEY (id),
    CONSTRAINT person_kind CHECK (kind IN ('operator', 'member')),
    CONSTRAINT person_role CHECK (
        role = 'operator' OR role = 'owner' OR role = 'developer' OR role = 'reader'
    )
) WITHOUT ROWID;
CREATE UNIQUE INDEX person_login ON person (kind, login) WHERE removed_at_s IS NULL;
CREATE INDEX person_account ON person (account_id);

-- The links that sign a person in once; only their hashes are stored.
CREATE TABLE sign_in_link (
    hash BLOB NOT NULL,
    person_id VARCHAR NOT NULL,
    made_at_s BIGINT NOT NULL,
    expires_at_s BIGINT NOT NULL,
    used_at_s BIGINT,
    PRIMARY KEY (hash)
) WITHOUT ROWID;

-- The second factor of a person who signs in: its secret is sealed, and no code of `last_step` or
-- before is accepted again.
CREATE TABLE second_factor (
    kind VARCHAR NOT NULL,
    subject_id VARCHAR NOT NULL,
    login VARCHAR NOT NULL,
    sealed_secret BLOB NOT NULL,
    confirmed_at_s BIGINT,
    last_step BIGINT NOT NULL,
    PRIMARY KEY (kind, subject_id)
) WITHOUT ROWID;
CREATE TABLE recovery_code (
    kind VARCHAR NOT NULL,
    subject_id VARCHAR NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (kind, subject_id, hash)
) WITHOUT ROWID;


-- Operators' acts -----------------------------------------------------------------------------

-- Numbered without a gap, each with a hash over itself and the hash before it; rows stay as they
-- are for ever.
CREATE TABLE operator_act (
    number BIGINT NOT NULL,
    at_ms BIGINT NOT NULL,
    "by" VARCHAR NOT NULL,
    act VARCHAR NOT NULL,
    subject VARCHAR NOT NULL,
    "before" VARCHAR,
    "after" VARCHAR,
    hash BLOB NOT NULL,
    PRIMARY KEY (number)
) WITHOUT ROWID;
CREATE INDEX operator_act_subject ON operator_act (subject, number);
/*sqlite*/CREATE TRIGGER operator_act_is_not_changed BEFORE UPDATE ON operator_act
/*sqlite*/BEGIN SELECT RAISE(ABORT, 'the trail of acts is never changed'); END;
/*sqlite*/CREATE TRIGGER operator_act_is_not_deleted BEFORE DELETE ON operator_act
/*sqlite*/BEGIN SELECT RAISE(ABORT, 'the trail of acts is never changed'); END;


-- Usage ----------------------------------------------------------------------------------------

-- Sums of charges by minute, hour and day, made after their commit. A day is stored under its date,
-- as if that were a day of UTC, so that it keeps the date whatever time zone is set later.
CREATE TABLE usage (
    span_s BIGINT NOT NULL,
    start_s BIGINT NOT NULL,
    account_id VARCHAR NOT NULL,
    unit VARCHAR NOT NULL,
    operation VARCHAR NOT NULL,
    calls BIGINT NOT NULL,
    amount BIGINT NOT NULL,
    PRIMARY KEY (span_s, start_s, account_id, unit, operation)
) WITHOUT ROWID;
CREATE INDEX usage_account ON usage (account_id, span_s, start_s, calls, amount);

-- Up to which number the entries of a balance are in the sums.
CREATE TABLE usage_cursor (
    account_id VARCHAR NOT NULL,
    unit VARCHAR NOT NULL,
    number BIGINT NOT NULL,
    skipped BIGINT NOT NULL,
    PRIMARY KEY (account_id, unit)
) WITHOUT ROWID;

-- Sums of the entries of a balance up to the same number, by day of UTC, kind and operation.
CREATE TABLE entry_day (
    account_id VARCHAR NOT NULL,
    unit VARCHAR NOT NULL,
    day BIGINT NOT NULL,
    kind VARCHAR NOT NULL,
    operation VARCHAR NOT NULL,
    entries BIGINT NOT NULL,
    amount BIGINT NOT NULL,
    first_number BIGINT NOT NULL,
    last_number BIGINT NOT NULL,
    PRIMARY KEY (account_id, unit, day, kind, operation)
) WITHOUT ROWID;
