"""Parameters in the query string."""

from tollway.contract.language import Phrase
from tollway.contract.wire.pairs import collect, urlencoded_pairs

_QUERY = Phrase("query string", "查询字符串")


def read_query(query: bytes) -> dict[str, str]:
    return collect(urlencoded_pairs(query, _QUERY))
