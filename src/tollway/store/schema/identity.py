"""The tables of people who sign in: sessions, attempts, second factors."""

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, LargeBinary, String, Table

from tollway.store.schema import metadata, partial_index

# Only the hash of a session's cookie is stored.
session = Table(
    "session",
    metadata,
    Column("hash", LargeBinary, primary_key=True),
    Column("kind", String, nullable=False),
    Column("subject_id", String, nullable=False),
    Column("started_at_s", BigInteger, nullable=False),
    Column("seen_at_s", BigInteger, nullable=False),
    Column("expires_at_s", BigInteger, nullable=False),
    Column("ended_at_s", BigInteger),
    CheckConstraint(
        "kind = 'shop' OR kind = 'user' OR kind = 'operator' OR kind = 'member'",
        name="session_kind",
    ),
    Index("session_subject", "kind", "subject_id"),
    Index("session_expiry", "expires_at_s"),
    sqlite_with_rowid=False,
)

# `counter` is a hash of what is counted: a login, an address, or both. What people type into the
# field of the login may be their password.
sign_in_attempt = Table(
    "sign_in_attempt",
    metadata,
    Column("counter", LargeBinary, primary_key=True),
    Column("attempts", BigInteger, nullable=False),
    Column("began_at_s", BigInteger, nullable=False),
    CheckConstraint("attempts >= 0", name="sign_in_attempt_attempts"),
    Index("sign_in_attempt_began", "began_at_s"),
    sqlite_with_rowid=False,
)

# Operators, and the members of accounts. Without a password a person signs in by link alone.
IN_FORCE = "removed_at_s IS NULL"
person = Table(
    "person",
    metadata,
    Column("id", String, primary_key=True),
    Column("kind", String, nullable=False),
    Column("account_id", String),
    Column("role", String, nullable=False),
    Column("name", String, nullable=False),
    Column("login", String, nullable=False),
    Column("password_hash", String),
    Column("added_at_s", BigInteger, nullable=False),
    Column("removed_at_s", BigInteger),
    CheckConstraint("kind IN ('operator', 'member')", name="person_kind"),
    CheckConstraint(
        "role = 'operator' OR role = 'owner' OR role = 'developer' OR role = 'reader'",
        name="person_role",
    ),
    Index("person_account", "account_id"),
    sqlite_with_rowid=False,
)
partial_index(
    "person_login",
    person.c.kind,
    person.c.login,
    is_unique=True,
    where=IN_FORCE,
)

# Of an account, those who were removed may be many.
partial_index("person_member", person.c.account_id, where=IN_FORCE)

# A link signs a person in once, or lets an owner (`person_id` as in `shop 7001`) choose a password;
# only its hash is stored.
sign_in_link = Table(
    "sign_in_link",
    metadata,
    Column("hash", LargeBinary, primary_key=True),
    Column("person_id", String, nullable=False),
    Column("made_at_s", BigInteger, nullable=False),
    Column("expires_at_s", BigInteger, nullable=False),
    Column("used_at_s", BigInteger),
    sqlite_with_rowid=False,
)

# One-time codes from a person's phone, required after the password once the factor is confirmed.
# Codes up to `last_step` are never accepted again.
second_factor = Table(
    "second_factor",
    metadata,
    Column("kind", String, primary_key=True),
    Column("subject_id", String, primary_key=True),
    Column("login", String, nullable=False),
    Column("sealed_secret", LargeBinary, nullable=False),
    Column("confirmed_at_s", BigInteger),
    Column("last_step", BigInteger, nullable=False),
    Index("second_factor_login", "login", "kind"),
    sqlite_with_rowid=False,
)

# Each replaces a code once; only hashes are stored.
recovery_code = Table(
    "recovery_code",
    metadata,
    Column("kind", String, primary_key=True),
    Column("subject_id", String, primary_key=True),
    Column("hash", LargeBinary, primary_key=True),
    sqlite_with_rowid=False,
)
