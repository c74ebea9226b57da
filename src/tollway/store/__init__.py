"""The database: the schema, its migrations, and the two engines that run it.

Packages above read and write through `Database` and `Transaction`, whichever engine answers.
"""
