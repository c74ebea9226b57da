"""The way of a call: one file per stage, and `order.py` with their order.

A stage is a small class over the `Call`. It fills in what it found out, or raises a `Refusal`. Only
`edge.py` knows ASGI.
"""
