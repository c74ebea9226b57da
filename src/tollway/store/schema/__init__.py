"""The tables that several packages use, one file per subject, for both engines.

The tables of one operation alone are in its own package, under the same metadata.

Times are whole numbers with their unit in the name, days are whole numbers like 20260131, money is
whole fen. The key of every table that grows with traffic starts with the account, the product or
the sid, so that the same schema can be sharded. Rows of such tables are stored in key order
(`sqlite_with_rowid=False`), because a call reads a run of neighbours.

A constraint compares with `=` where there are more than two values: for a longer `IN`, SQLite makes
a table of its own in every INSERT, which takes as long as a short row.
"""

from typing import NamedTuple

from sqlalchemy import MetaData

metadata = MetaData()


class DividedBy(NamedTuple):
    """The time by which a shared database divides a table by month, and its steps in a second.

    It is in the table's `info` under `MONTHS`.
    """

    column: str
    per_s: int


MONTHS = "months"
