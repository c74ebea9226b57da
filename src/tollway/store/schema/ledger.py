"""The tables of the ledger: accounts and what they may call, tokens, clients, balances, entries,
holds, answers kept under an Idempotency-Key, the calls that were not charged, times of calls,
usage, and the trail of operators' acts."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    func,
    text,
)

from tollway.store.schema import MONTHS, DividedBy, metadata, partial_index

account = Table(
    "account",
    metadata,
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False, unique=True),
    Column("opened_at_s", BigInteger, nullable=False),
    Column("closed_at_s", BigInteger),
    Column("suspended_at_s", BigInteger),
    sqlite_with_rowid=False,
)

# An operation without a row is open and has its descriptor's price.
operation_state = Table(
    "operation_state",
    metadata,
    Column("operation", String, primary_key=True),
    Column("is_closed", Integer, nullable=False),
    Column("price", BigInteger),
    CheckConstraint("price >= 0", name="operation_state_price"),
    sqlite_with_rowid=False,
)

# Which account may call which operation. No price here means the list price, and no
# rate the default one.
permission = Table(
    "permission",
    metadata,
    Column("account_id", String, primary_key=True),
    Column("operation", String, primary_key=True),
    Column("price", BigInteger),
    Column("rate_limit", BigInteger),
    CheckConstraint("price >= 0", name="permission_price"),
    CheckConstraint("rate_limit >= 1", name="permission_rate_limit"),
    sqlite_with_rowid=False,
)

token = Table(
    "token",
    metadata,
    Column("hash", LargeBinary, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("account_id", String, nullable=False, index=True),
    Column("kind", String, nullable=False),
    Column("label", String, nullable=False),
    Column("start", String, nullable=False),
    Column("issued_at_s", BigInteger, nullable=False),
    Column("expires_at_s", BigInteger),
    Column("revoked_at_s", BigInteger),
    Column("last_used_at_s", BigInteger),
    Column("client_id", String),
    # What the token is limited to, if at all: names and networks, separated by commas.
    Column("operations", String),
    Column("networks", String),
    Column("credits_per_day", BigInteger),
    Column("calls_per_day", BigInteger),
    # The token whose daily count it shares: the first in a chain of replacements.
    Column("counted_with", String),
    CheckConstraint("kind IN ('live', 'test')", name="token_kind"),
    sqlite_with_rowid=False,
)

# What a token with a cap has spent in the day that began at `day_at_ms`.
token_day = Table(
    "token_day",
    metadata,
    Column("token_id", String, primary_key=True),
    Column("day_at_ms", BigInteger, nullable=False),
    Column("credits", BigInteger, nullable=False),
    Column("calls", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# What an account made free of charge in the day that began at `day_start_s`.
account_day = Table(
    "account_day",
    metadata,
    Column("account_id", String, primary_key=True),
    Column("counted", String, primary_key=True),
    Column("day_start_s", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# `amount` is what is available. What was reserved is `held` until it is captured or released, and
# what was charged is `posted`. `entries` counts the entries behind a balance, so that the audit
# notices a missing one.
balance = Table(
    "balance",
    metadata,
    Column("account_id", String, primary_key=True),
    Column("unit", String, primary_key=True),
    Column("amount", BigInteger, nullable=False),
    Column("held", BigInteger, nullable=False),
    Column("posted", BigInteger, nullable=False),
    Column("entries", BigInteger, nullable=False),
    CheckConstraint("amount >= 0", name="balance_amount"),
    CheckConstraint("held >= 0", name="balance_held"),
    CheckConstraint("posted >= 0", name="balance_posted"),
    sqlite_with_rowid=False,
)

# `amount` is the change of what is available. A hold takes, its release gives back, and a capture
# is a release and a charge in one transaction.
entry = Table(
    "entry",
    metadata,
    Column("account_id", String, primary_key=True),
    Column("unit", String, primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("kind", String, nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("balance_after", BigInteger, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("operation", String),
    Column("request_id", String),
    Column("token_id", String),
    Column("note", String),
    CheckConstraint(
        "kind = 'charge' OR kind = 'hold' OR kind = 'release' OR kind = 'top_up' "
        "OR kind = 'correction'",
        name="entry_kind",
    ),
    Index("entry_request", "request_id"),
    info={MONTHS: DividedBy("at_ms", 1000)},
    sqlite_with_rowid=False,
)

client = Table(
    "client",
    metadata,
    Column("id", String, primary_key=True),
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("account_id", String, nullable=False, index=True),
    Column("kind", String, nullable=False),
    Column("label", String, nullable=False),
    Column("start", String, nullable=False),
    Column("added_at_s", BigInteger, nullable=False),
    Column("revoked_at_s", BigInteger),
    CheckConstraint("kind IN ('live', 'test')", name="client_kind"),
    sqlite_with_rowid=False,
)

# Clients obtain thousands of tokens; those that people made are few, and listed.
partial_index("token_made", token.c.account_id, where="client_id IS NULL")
# Most tokens come from the operator, and are in neither index.
IS_OBTAINED = "client_id IS NOT NULL"
partial_index(
    "token_client",
    token.c.client_id,
    token.c.issued_at_s,
    where=IS_OBTAINED,
)
partial_index(
    "token_client_expiry",
    token.c.kind,
    token.c.expires_at_s,
    where=IS_OBTAINED,
)

# Credits set aside for a call whose outcome a carrier decides. The consent is the one that
# the call was made under, and `key` the Idempotency-Key that it came with.
hold = Table(
    "hold",
    metadata,
    Column("account_id", String, primary_key=True),
    Column("id", String, primary_key=True),
    Column("unit", String, nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("operation", String, nullable=False),
    Column("request_id", String, nullable=False),
    Column("token_id", String, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("deadline_at_ms", BigInteger, nullable=False),
    Column("state", String, nullable=False),
    Column("settled_at_ms", BigInteger),
    Column("owner_kind", String),
    Column("owner_id", String),
    Column("consent_id", String),
    Column("key", String),
    CheckConstraint("amount >= 0", name="hold_amount"),
    CheckConstraint(
        "state = 'held' OR state = 'captured' OR state = 'released'", name="hold_state"
    ),
    Index("hold_request", "request_id"),
    sqlite_with_rowid=False,
)
IS_HELD = "state = 'held'"
partial_index(
    "hold_open",
    hold.c.deadline_at_ms,
    where=IS_HELD,
)

# The answers to requests that came with an Idempotency-Key, sealed, for as long as the key is
# valid. An empty answer reserves the key for a request whose outcome a carrier decides.
idempotency_key = Table(
    "idempotency_key",
    metadata,
    Column("account_id", String, primary_key=True),
    Column("key", String, primary_key=True),
    Column("request_id", String, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Index("idempotency_key_at", "at_ms"),
    sqlite_with_rowid=False,
)
is_reserved = func.length(idempotency_key.c.sealed) == 0

# What the dropped entries of a balance, always the oldest, add up to: the sums of their amounts by
# kind, and the number, balance and time of the last of them. `waybills` is the part of
# `charge` that was for waybills.
archived_balance = Table(
    "archived_balance",
    metadata,
    Column("account_id", String, primary_key=True),
    Column("unit", String, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("balance_after", BigInteger, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("top_up", BigInteger, nullable=False),
    Column("correction", BigInteger, nullable=False),
    Column("charge", BigInteger, nullable=False),
    Column("hold", BigInteger, nullable=False),
    Column("release", BigInteger, nullable=False),
    Column("waybills", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# What an agent's session has spent of its budget, calls and credits together.
agent_session = Table(
    "agent_session",
    metadata,
    Column("account_id", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("spent", BigInteger, nullable=False),
    Column("used_at_s", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# The calls of known accounts that have no charge in the ledger, and why.
refused_call = Table(
    "refused_call",
    metadata,
    Column("account_id", String, primary_key=True),
    Column("request_id", String, primary_key=True),
    Column("at_ms", BigInteger, nullable=False),
    Column("operation", String, nullable=False),
    Column("code", BigInteger, nullable=False),
    Column("reason", String, nullable=False),
    Column("replay_of", String),
    # The client's own id for its request, if it sent one.
    Column("client_request_id", String),
    # 1 if the token was a test token.
    Column("is_test", Integer, nullable=False),
    # How many more such calls there were in the same minute, which have no row.
    Column("more", BigInteger, nullable=False, server_default=text("0")),
    # Whose data the call asked for, if it named a shop or user.
    Column("owner_kind", String),
    Column("owner_id", String),
    # What its answer said of a wrong parameter, in both languages, as JSON.
    Column("said", String),
    Index("refused_call_at", "at_ms"),
    info={MONTHS: DividedBy("at_ms", 1000)},
    sqlite_with_rowid=False,
)

# How long a sample of calls spent in each stage, as JSON; dropped after some days.
call_timing = Table(
    "call_timing",
    metadata,
    Column("request_id", String, primary_key=True),
    Column("account_id", String, nullable=False),
    Column("stages", String, nullable=False),
    sqlite_with_rowid=False,
)

# Sums of charges by minute, hour and day.
usage = Table(
    "usage",
    metadata,
    Column("span_s", BigInteger, primary_key=True),
    Column("start_s", BigInteger, primary_key=True),
    Column("account_id", String, primary_key=True),
    Column("unit", String, primary_key=True),
    Column("operation", String, primary_key=True),
    Column("calls", BigInteger, nullable=False),
    Column("amount", BigInteger, nullable=False),
    # A covering index: otherwise SQLite would read all accounts of the span, not look one up.
    Index("usage_account", "account_id", "span_s", "start_s", "calls", "amount"),
    sqlite_with_rowid=False,
)

# The entries of a balance up to `number` are in the sums. `skipped` is the amount of the entries
# that were dropped before they could be counted.
usage_cursor = Table(
    "usage_cursor",
    metadata,
    Column("account_id", String, primary_key=True),
    Column("unit", String, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("skipped", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# Sums of the entries of a balance up to the same number, by UTC day, kind and operation, and the
# numbers of the first and the last entry in each.
entry_day = Table(
    "entry_day",
    metadata,
    Column("account_id", String, primary_key=True),
    Column("unit", String, primary_key=True),
    Column("day", BigInteger, primary_key=True),
    Column("kind", String, primary_key=True),
    Column("operation", String, primary_key=True),
    Column("entries", BigInteger, nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("first_number", BigInteger, nullable=False),
    Column("last_number", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# Every act of an operator, in a chain of hashes: numbered without a gap, `hash` is over the row and
# the hash before; `before` and `after` are JSON. Triggers of the database refuse to change or
# delete a row.
operator_act = Table(
    "operator_act",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("by", String, nullable=False),
    Column("act", String, nullable=False),
    Column("subject", String, nullable=False),
    Column("before", String),
    Column("after", String),
    Column("hash", LargeBinary, nullable=False),
    Index("operator_act_subject", "subject", "number"),
    Index("operator_act_by", "by", "number"),
    sqlite_with_rowid=False,
)
