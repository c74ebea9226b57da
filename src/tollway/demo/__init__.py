"""A believable world to try the gateway in: always the same for one seed.

It is loaded like any other data and lives in ordinary tables. The sandbox that test tokens see is a
small one of it.
"""
