"""The stages of a call, one file each; `pipeline.py` has their order.

A stage is a small class over the `Call`. It fills in what it found out, or raises a `Refusal`. Only
`http.py` knows ASGI.
"""
