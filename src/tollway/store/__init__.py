"""Where everything is kept: the schema, its migrations, and the engines that run it.

Rooms above ask for rows through `Database` and `Transaction` and never learn which engine answers.
"""
