"""All checks, in the order in which they run and are told. A new one is entered here."""

from tollway.audit.accounts import ACCOUNTS, UNCHARGED
from tollway.audit.consents import CONSENT_CHARGES, CONSENT_USES
from tollway.audit.coupon_claims import CLAIM_HOURS
from tollway.audit.duplicates import CODES_ONCE, ORDERS_ONCE
from tollway.audit.entries import CHARGED_ONCE, ENTRIES
from tollway.audit.holds import (
    HOLD_WAYBILLS,
    HOLDS,
    HOLDS_IN_TIME,
    RESERVED_KEYS,
    WAYBILL_HOLDS,
)
from tollway.audit.ledger import BALANCES
from tollway.audit.orders import ORDER_DAYS, ORDER_HOURS
from tollway.audit.waybill_charges import WAYBILL_CHARGES, WAYBILLS_PAID
from tollway.audit.waybills import NUMBERS_ONCE, NUMBERS_TAKEN, NUMBERS_USED, WAYBILLS_IN_FORCE

CHECKS = (
    ACCOUNTS,
    BALANCES,
    ENTRIES,
    CHARGED_ONCE,
    UNCHARGED,
    HOLDS,
    HOLDS_IN_TIME,
    HOLD_WAYBILLS,
    WAYBILL_HOLDS,
    RESERVED_KEYS,
    CONSENT_USES,
    CONSENT_CHARGES,
    WAYBILLS_IN_FORCE,
    NUMBERS_ONCE,
    NUMBERS_TAKEN,
    NUMBERS_USED,
    WAYBILLS_PAID,
    WAYBILL_CHARGES,
    ORDERS_ONCE,
    ORDER_HOURS,
    ORDER_DAYS,
    CODES_ONCE,
    CLAIM_HOURS,
)
