"""From the bytes of a request to raw values by name: one small reader per encoding.

A name sent twice with one value is harmless and taken once; with two values nobody can say which
was meant, so it is refused.
"""
