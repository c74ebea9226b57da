"""Faults for controls: each makes one thing in the database wrong, which the model must find."""

SABOTAGES = {
    "a count of orders": """
        UPDATE order_count SET orders = orders + 1
        WHERE hours = 24 AND owner_id = '880012001' AND bucket = (
            SELECT max(bucket) FROM order_count WHERE hours = 24 AND owner_id = '880012001'
        )""",
    "a count of claims": "UPDATE coupon_claim_hour SET claims = claims + 1",
    "orders": """
        UPDATE shop_order SET ready = (
            SELECT ready FROM shop_order AS other ORDER BY order_sn LIMIT 1
        )""",
    "balances": "UPDATE balance SET amount = amount + 1, posted = posted + 1",
    "the ledger": "UPDATE entry SET at_ms = at_ms - 60000 WHERE number = 1",
}
