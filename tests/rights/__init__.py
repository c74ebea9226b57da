"""Callers of several gateways on one database, while what they may do is taken away and given back.

A call that is sent after the acknowledgement of an end is refused, on every node, and costs
nothing. The long version is in `tests/torture/test_rights_campaign.py`.
"""
