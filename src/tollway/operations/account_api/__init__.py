"""The account API: what a caller can see and change of its own account, free of charge.

Its endpoints are described like operations, so that routing, decoding, limits, the envelope, the
OpenAPI document and the SDKs are the same. `endpoints.py` lists them.
"""
