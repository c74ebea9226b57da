"""What of a receiver may be seen: enough to tell two apart, too little to reach either."""

import re

# House, building, floor and room numbers: digits with what is written around them, letters and
# Chinese numerals that name a building. A numeral in the name of a street stays (文三路).
_NUMBER = re.compile(
    r"[A-Za-z]?[0-9０-９][0-9０-９A-Za-z#\-－—/]*"
    r"|[一二三四五六七八九十百零〇两甲乙丙丁]+(?=号|栋|幢|单元|室|楼|层|弄|座|户)"
    r"|[A-Za-z]+(?=号|栋|幢|单元|室|楼|座|区)"
)


def masked_name(name: str) -> str:
    return f"{name[:1]}**" if len(name) > 1 else "*" * len(name)


def masked_phone(phone: str) -> str:
    if len(phone) >= 11:
        return f"{phone[:3]}****{phone[-4:]}"
    return f"{phone[:2]}****{phone[-2:]}" if len(phone) >= 7 else "*" * len(phone)


def masked_address(address: str) -> str:
    """The street stays; its numbers go. Where there are none, the second half goes instead."""
    masked, numbers = _NUMBER.subn("***", address)
    return masked if numbers else f"{address[: (len(address) + 1) // 2]}***"
