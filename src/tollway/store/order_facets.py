"""By what orders are counted: the facets an order belongs to, and the spans of time.

Written by the intake and read by the query, so both must mean the same.
"""

HOUR_MS = 3_600_000
DAY_HOURS = 24
DAY_MS = HOUR_MS * DAY_HOURS

ALL = ""


def facet_of(tag: int | None, tag_name: str | None) -> str:
    """The facet that is listed when this tag, this name, both or neither are asked for."""
    if tag is None:
        return ALL if tag_name is None else f"n:{tag_name}"
    return f"t:{tag}" if tag_name is None else f"tn:{tag}:{tag_name}"


def facets_of(tag: int | None, tag_name: str | None) -> set[str]:
    """Every facet that an order with this tag and name belongs to."""
    return {
        ALL,
        facet_of(tag, None),
        facet_of(None, tag_name),
        facet_of(tag, tag_name),
    }
