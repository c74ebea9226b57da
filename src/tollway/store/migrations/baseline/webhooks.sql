-- Webhooks -------------------------------------------------------------------------------------

-- Where an account's events go.
CREATE TABLE webhook_endpoint (
    account_id VARCHAR NOT NULL,
    id VARCHAR NOT NULL,
    url VARCHAR NOT NULL,
    sealed_secrets BLOB NOT NULL,
    rotated_at_s BIGINT,
    last_number BIGINT NOT NULL,
    made_at_s BIGINT NOT NULL,
    ended_at_s BIGINT,
    PRIMARY KEY (account_id, id)
) WITHOUT ROWID;

-- An event on its way to one endpoint, and afterwards the log of it.
CREATE TABLE webhook_delivery (
    account_id VARCHAR NOT NULL,
    endpoint_id VARCHAR NOT NULL,
    number BIGINT NOT NULL,
    event_id VARCHAR NOT NULL,
    type VARCHAR NOT NULL,
    subject VARCHAR NOT NULL,
    at_ms BIGINT NOT NULL,
    body VARCHAR NOT NULL,
    state VARCHAR NOT NULL,
    attempts BIGINT NOT NULL,
    next_at_ms BIGINT NOT NULL,
    status BIGINT,
    settled_at_ms BIGINT,
    PRIMARY KEY (account_id, endpoint_id, number),
    CONSTRAINT webhook_delivery_state CHECK (
        state = 'waiting' OR state = 'delivered' OR state = 'failed'
    )
) WITHOUT ROWID;
CREATE UNIQUE INDEX webhook_delivery_event ON webhook_delivery (account_id, endpoint_id, event_id);
CREATE INDEX webhook_delivery_due ON webhook_delivery (endpoint_id, next_at_ms)
WHERE state = 'waiting';
CREATE INDEX webhook_delivery_order ON webhook_delivery (account_id, endpoint_id, subject, number)
WHERE state = 'waiting';
CREATE INDEX webhook_delivery_settled ON webhook_delivery (settled_at_ms);

-- Below which balance an account wants to be notified, and whether it was.
CREATE TABLE balance_alert (
    account_id VARCHAR NOT NULL,
    unit VARCHAR NOT NULL,
    below BIGINT NOT NULL,
    fired_at_ms BIGINT,
    PRIMARY KEY (account_id, unit)
) WITHOUT ROWID;
