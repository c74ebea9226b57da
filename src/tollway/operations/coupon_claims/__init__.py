"""Coupon claims: the coupons that were claimed under one sid within at most seven days."""
