"""Where everything is kept: the schema, its migrations, and the engines that run it.

Packages above read and write through `Database` and `Transaction`, whichever engine answers.
"""
