"""Paged order query: the sold orders of a shop, any page of them at the cost of the first."""
