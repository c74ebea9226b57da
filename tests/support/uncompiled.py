"""Prints how many queries of this process are not compiled for both engines, and of how many."""

import gc
import sys

from tollway.store.query import Query

if __name__ == "__main__":
    gc.unfreeze()
    queries = [vars(each) for each in gc.get_objects() if isinstance(each, Query)]
    not_compiled = sum(not {"sqlite", "postgresql"} <= made.keys() for made in queries)
    sys.stdout.write(f"{not_compiled} {len(queries)}\n")
