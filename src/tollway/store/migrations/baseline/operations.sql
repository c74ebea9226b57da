-- What the operations answer from, how it comes in, and waybills.


-- Product analysis ---------------------------------------------------------------------------

CREATE TABLE product (
    product_id VARCHAR NOT NULL,
    title VARCHAR NOT NULL,
    picture_url VARCHAR NOT NULL,
    shop_name VARCHAR NOT NULL,
    PRIMARY KEY (product_id)
) WITHOUT ROWID;

-- `day` is a number like 20260131.
CREATE TABLE product_day (
    product_id VARCHAR NOT NULL,
    day INTEGER NOT NULL,
    visitors BIGINT NOT NULL,
    buyers BIGINT NOT NULL,
    payment_fen BIGINT NOT NULL,
    collections BIGINT NOT NULL,
    pieces_paid BIGINT NOT NULL,
    pieces_carted BIGINT NOT NULL,
    PRIMARY KEY (product_id, day)
) WITHOUT ROWID;

-- The figures of one day by traffic source, keyword or search term.
CREATE TABLE product_figure (
    product_id VARCHAR NOT NULL,
    day INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    visitors BIGINT NOT NULL,
    buyers BIGINT NOT NULL,
    pieces_ordered BIGINT NOT NULL,
    page_views BIGINT NOT NULL,
    PRIMARY KEY (product_id, day, kind, name),
    CONSTRAINT product_figure_kind CHECK (kind = 'source' OR kind = 'keyword' OR kind = 'search')
) WITHOUT ROWID;

-- The parts of a day as they are answered: three encoded lists. They are long: in SQLite, a table
-- WITHOUT ROWID would have them in the tree of its key, where each would take pages of its own.
CREATE TABLE product_day_parts (
    product_id VARCHAR NOT NULL,
    day INTEGER NOT NULL,
    sources BLOB NOT NULL,
    keywords BLOB NOT NULL,
    searches BLOB NOT NULL,
    PRIMARY KEY (product_id, day)
);


-- Coupon claims ------------------------------------------------------------------------------

-- `newest_first` is the time of the claim in seconds, negated, so that a page in the order of
-- listing is one run of neighbours. Of two versions of a claim the one updated later stays.
CREATE TABLE coupon_claim (
    sid VARCHAR NOT NULL,
    claim_type INTEGER NOT NULL,
    newest_first BIGINT NOT NULL,
    coupon_code VARCHAR NOT NULL,
    coupon_name VARCHAR NOT NULL,
    coupon_type VARCHAR NOT NULL,
    money_fen BIGINT NOT NULL,
    min_use_fen BIGINT NOT NULL,
    begin_at_s BIGINT NOT NULL,
    end_at_s BIGINT NOT NULL,
    app_key VARCHAR NOT NULL,
    updated_ms BIGINT NOT NULL,
    ready BLOB NOT NULL,
    PRIMARY KEY (sid, claim_type, newest_first, coupon_code),
    CONSTRAINT coupon_claim_type CHECK (claim_type IN (4, 6))
/*sqlite*/) WITHOUT ROWID;
/*sqlite*/CREATE UNIQUE INDEX coupon_claim_code ON coupon_claim (coupon_code);
/*postgresql*/) PARTITION BY RANGE (newest_first);

-- How many claims each hour has.
CREATE TABLE coupon_claim_hour (
    sid VARCHAR NOT NULL,
    claim_type INTEGER NOT NULL,
    hour BIGINT NOT NULL,
    claims BIGINT NOT NULL,
    PRIMARY KEY (sid, claim_type, hour),
    CONSTRAINT coupon_claim_hour_claims CHECK (claims >= 0)
) WITHOUT ROWID;
CREATE INDEX coupon_claim_hour_at ON coupon_claim_hour (hour);

-- Another number with every change of the counts; only in an embedded database.
CREATE TABLE coupon_claim_version (
    sid VARCHAR NOT NULL,
    claim_type INTEGER NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (sid, claim_type)
) WITHOUT ROWID;


-- Promotion material -------------------------------------------------------------------------

-- `benefits` and `items` are JSON: they are only ever read and replaced with their record.
CREATE TABLE promotion_material (
    promotion_id BIGINT NOT NULL,
    id VARCHAR NOT NULL,
    promotion_type VARCHAR NOT NULL,
    condition_type VARCHAR NOT NULL,
    discount_type VARCHAR NOT NULL,
    total_count BIGINT NOT NULL,
    remain_count BIGINT NOT NULL,
    display_start_ms BIGINT NOT NULL,
    display_end_ms BIGINT NOT NULL,
    seller_id VARCHAR NOT NULL,
    nick VARCHAR NOT NULL,
    shop_title VARCHAR NOT NULL,
    shop_picture_url VARCHAR NOT NULL,
    promotion_url VARCHAR NOT NULL,
    paid_coupon_item_id VARCHAR NOT NULL,
    paid_coupon_url VARCHAR NOT NULL,
    benefits VARCHAR NOT NULL,
    items VARCHAR NOT NULL,
    ready BLOB NOT NULL,
    PRIMARY KEY (promotion_id, id)
) WITHOUT ROWID;
CREATE INDEX promotion_material_display
    ON promotion_material (promotion_id, display_start_ms, id);


-- Orders -------------------------------------------------------------------------------------

-- `newest_first` is the confirm time in milliseconds, negated. `sealed` has the receiver's name,
-- phone and detailed address, encrypted. `ready` is the order as it is answered.
CREATE TABLE shop_order (
    owner_id VARCHAR NOT NULL,
    newest_first BIGINT NOT NULL,
    order_sn VARCHAR NOT NULL,
    updated_ms BIGINT NOT NULL,
    status INTEGER NOT NULL,
    province VARCHAR NOT NULL,
    city VARCHAR NOT NULL,
    town VARCHAR NOT NULL,
    goods_name VARCHAR NOT NULL,
    goods_img VARCHAR NOT NULL,
    goods_spec VARCHAR NOT NULL,
    goods_count BIGINT NOT NULL,
    is_pre_sale INTEGER NOT NULL,
    last_ship_ms BIGINT NOT NULL,
    pay_fen BIGINT NOT NULL,
    remark VARCHAR,
    remark_tag INTEGER,
    remark_tag_name VARCHAR,
    change_no BIGINT NOT NULL,
    sealed BLOB NOT NULL,
    ready BLOB NOT NULL,
    PRIMARY KEY (owner_id, newest_first, order_sn),
    CONSTRAINT shop_order_status CHECK (status BETWEEN 1 AND 3),
    CONSTRAINT shop_order_remark_tag CHECK (remark_tag BETWEEN 1 AND 5)
/*sqlite*/) WITHOUT ROWID;
/*sqlite*/CREATE UNIQUE INDEX shop_order_sn ON shop_order (owner_id, order_sn);
/*postgresql*/) PARTITION BY RANGE (newest_first);
-- In the order in which orders of a shop were changed.
CREATE INDEX shop_order_change ON shop_order (owner_id, change_no);
-- One index for each filter by tag, over the few orders that have one.
CREATE INDEX shop_order_tag ON shop_order (owner_id, remark_tag, newest_first, order_sn)
    WHERE remark_tag IS NOT NULL;
CREATE INDEX shop_order_tag_name ON shop_order (owner_id, remark_tag_name, newest_first, order_sn)
    WHERE remark_tag_name IS NOT NULL;
CREATE INDEX shop_order_tag_both
    ON shop_order (owner_id, remark_tag_name, remark_tag, newest_first, order_sn)
    WHERE remark_tag_name IS NOT NULL;
-- A search in remarks reads this index alone; in PostgreSQL not for long ones, since an entry takes
-- 2,704 bytes.
CREATE INDEX shop_order_remark
    ON shop_order (owner_id, newest_first, order_sn, remark, remark_tag, remark_tag_name)
/*sqlite*/    WHERE remark IS NOT NULL;
/*postgresql*/    WHERE length(remark) <= 250;
/*postgresql*/CREATE INDEX shop_order_long_remark
/*postgresql*/    ON shop_order (owner_id, newest_first, order_sn, remark_tag, remark_tag_name)
/*postgresql*/    WHERE length(remark) > 250;

-- How many orders each day (`hours` 24) or hour (`hours` 1) has, in all or with a tag.
CREATE TABLE order_count (
    owner_id VARCHAR NOT NULL,
    facet VARCHAR NOT NULL,
    hours INTEGER NOT NULL,
    bucket BIGINT NOT NULL,
    orders BIGINT NOT NULL,
    PRIMARY KEY (owner_id, facet, hours, bucket),
    CONSTRAINT order_count_orders CHECK (orders >= 0)
) WITHOUT ROWID;
CREATE INDEX order_count_day ON order_count (bucket, owner_id)
    WHERE hours = 24 AND facet = '';

-- The last change number that a shop's orders got.
CREATE TABLE order_change (
    owner_id VARCHAR NOT NULL,
    change_no BIGINT NOT NULL,
    PRIMARY KEY (owner_id)
) WITHOUT ROWID;

-- Another number with every change of a shop's counts; only in an embedded database.
CREATE TABLE order_version (
    owner_id VARCHAR NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (owner_id)
) WITHOUT ROWID;


-- Pushed records -----------------------------------------------------------------------------

-- The systems that may push, and for which shops and channels (JSON); their newest secret and the one before it are encrypted.
CREATE TABLE push_source (
    name VARCHAR NOT NULL,
    speaks_for VARCHAR NOT NULL,
    sealed_secrets BLOB NOT NULL,
    added_at_s BIGINT NOT NULL,
    rotated_at_s BIGINT,
    PRIMARY KEY (name)
) WITHOUT ROWID;

-- Pushed records that were invalid, encrypted because they may contain personal data.
CREATE TABLE rejected_record (
    source VARCHAR NOT NULL,
    id VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    reason VARCHAR NOT NULL,
    received_at_s BIGINT NOT NULL,
    sealed BLOB NOT NULL,
    PRIMARY KEY (source, id)
) WITHOUT ROWID;


-- Carriers and waybills ----------------------------------------------------------------------

-- `number_format` is a regular expression or S10; `area_provinces` is a JSON list.
CREATE TABLE carrier (
    wp_code VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    number_format VARCHAR NOT NULL,
    area_kind VARCHAR NOT NULL,
    area_provinces VARCHAR NOT NULL,
    PRIMARY KEY (wp_code),
    CONSTRAINT carrier_area_kind CHECK (
        area_kind = 'all' OR area_kind = 'only' OR area_kind = 'except'
    )
) WITHOUT ROWID;

-- A carrier with a row here issues its numbers itself, over the network.
CREATE TABLE carrier_link (
    wp_code VARCHAR NOT NULL,
    url VARCHAR NOT NULL,
    provider_id VARCHAR NOT NULL,
    to_code VARCHAR NOT NULL,
    sealed_secret BLOB NOT NULL,
    deadline_ms BIGINT NOT NULL,
    settle_after_s BIGINT NOT NULL,
    changed_at_s BIGINT NOT NULL,
    protocol VARCHAR NOT NULL,
    template_url VARCHAR NOT NULL,
    PRIMARY KEY (wp_code),
    CONSTRAINT carrier_link_deadline CHECK (deadline_ms > 0),
    CONSTRAINT carrier_link_settle_after CHECK (settle_after_s * 1000 > deadline_ms)
) WITHOUT ROWID;

-- What a carrier's sorters read, by the receiver's place. An empty `city` stands for all of a
-- province, an empty `district` for all of a city.
CREATE TABLE carrier_route (
    wp_code VARCHAR NOT NULL,
    province VARCHAR NOT NULL,
    city VARCHAR NOT NULL,
    district VARCHAR NOT NULL,
    route_code VARCHAR NOT NULL,
    hub_name VARCHAR NOT NULL,
    hub_code VARCHAR NOT NULL,
    PRIMARY KEY (wp_code, province, city, district)
) WITHOUT ROWID;

-- The pools of numbers. A taken number stays, so that it can never be loaded again. An empty
-- `owner_id` is the pool that all shops share.
CREATE TABLE waybill_number (
    wp_code VARCHAR NOT NULL,
    number VARCHAR NOT NULL,
    owner_id VARCHAR NOT NULL,
    is_taken INTEGER NOT NULL,
    PRIMARY KEY (wp_code, number),
    CONSTRAINT waybill_number_is_taken CHECK (is_taken IN (0, 1))
) WITHOUT ROWID;
CREATE INDEX waybill_number_next ON waybill_number (owner_id, wp_code, is_taken, number);

-- A pending waybill waits for a remote carrier: it has no number yet, and its price is held.
CREATE TABLE waybill (
    account_id VARCHAR NOT NULL,
    object_id VARCHAR NOT NULL,
    owner_id VARCHAR NOT NULL,
    order_sn VARCHAR NOT NULL,
    wp_code VARCHAR NOT NULL,
    state VARCHAR NOT NULL,
    number VARCHAR,
    price BIGINT NOT NULL,
    request_id VARCHAR,
    hold_id VARCHAR,
    asked_at_s BIGINT NOT NULL,
    issued_at_s BIGINT,
    cancelled_at_s BIGINT,
    refusal VARCHAR,
    parent_number VARCHAR,
    doubtful VARCHAR,
    printed_at_s BIGINT,
    changing_until_s BIGINT,
    fingerprints VARCHAR NOT NULL,
    sealed BLOB NOT NULL,
    PRIMARY KEY (account_id, object_id),
    CONSTRAINT waybill_state CHECK (
        state = 'issued' OR state = 'pending' OR state = 'refused' OR state = 'cancelled'
    )
);
CREATE UNIQUE INDEX waybill_object ON waybill (object_id);
CREATE UNIQUE INDEX waybill_number_once ON waybill (number, wp_code);
CREATE INDEX waybill_request ON waybill (request_id);
CREATE INDEX waybill_order ON waybill (order_sn, request_id);
CREATE INDEX waybill_asked ON waybill (asked_at_s, wp_code);
-- A cancelled or refused waybill frees its key.
CREATE UNIQUE INDEX waybill_natural_key ON waybill (account_id, owner_id, order_sn, wp_code)
    WHERE state IN ('pending', 'issued');
CREATE INDEX waybill_pending ON waybill (asked_at_s) WHERE state = 'pending';
CREATE INDEX waybill_changing ON waybill (wp_code)
    WHERE state = 'issued' AND changing_until_s IS NOT NULL;
