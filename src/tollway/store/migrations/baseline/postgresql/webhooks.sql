-- Webhooks -------------------------------------------------------------------------------------

-- Where an account's events go.
CREATE TABLE webhook_endpoint (
    account_id VARCHAR COLLATE "C" NOT NULL,
    id VARCHAR COLLATE "C" NOT NULL,
    url VARCHAR COLLATE "C" NOT NULL,
    sealed_secrets BYTEA NOT NULL,
    rotated_at_s BIGINT,
    last_number BIGINT NOT NULL,
    made_at_s BIGINT NOT NULL,
    ended_at_s BIGINT,
    PRIMARY KEY (account_id, id)
);

-- An event on its way to one endpoint, and afterwards the log of it.
CREATE TABLE webhook_delivery (
    account_id VARCHAR COLLATE "C" NOT NULL,
    endpoint_id VARCHAR COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    event_id VARCHAR COLLATE "C" NOT NULL,
    type VARCHAR COLLATE "C" NOT NULL,
    subject VARCHAR COLLATE "C" NOT NULL,
    at_ms BIGINT NOT NULL,
    body VARCHAR COLLATE "C" NOT NULL,
    state VARCHAR COLLATE "C" NOT NULL,
    attempts BIGINT NOT NULL,
    next_at_ms BIGINT NOT NULL,
    status BIGINT,
    settled_at_ms BIGINT,
    PRIMARY KEY (account_id, endpoint_id, number),
    CONSTRAINT webhook_delivery_state CHECK (
        state = 'waiting' OR state = 'delivered' OR state = 'failed'
    )
);
CREATE UNIQUE INDEX webhook_delivery_event ON webhook_delivery (account_id, endpoint_id, event_id);
CREATE INDEX webhook_delivery_due ON webhook_delivery (endpoint_id, next_at_ms)
WHERE state = 'waiting';
CREATE INDEX webhook_delivery_order ON webhook_delivery (account_id, endpoint_id, subject, number)
WHERE state = 'waiting';
CREATE INDEX webhook_delivery_settled ON webhook_delivery (settled_at_ms);

-- Below which balance an account wants to be notified, and whether it was.
CREATE TABLE balance_alert (
    account_id VARCHAR COLLATE "C" NOT NULL,
    unit VARCHAR COLLATE "C" NOT NULL,
    below BIGINT NOT NULL,
    fired_at_ms BIGINT,
    PRIMARY KEY (account_id, unit)
);
