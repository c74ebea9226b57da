"""What a carrier's numbers look like: a regular expression, or the UPU's S10 with its check digit.

Carriers do not publish their formats; these come from observation. They are the defaults for an
operator who adds a carrier without a format.
"""

import re
from functools import lru_cache

from tollway.carriers import CarrierError
from tollway.contract.language import Sentence

S10 = "S10"
# What every number of the sandbox begins with, and no other number may.
SANDBOX_PREFIX = "TEST"
KNOWN_FORMATS = {
    "YTO": r"YT\d{13}",
    "JTSD": r"JT\d{13}",
    "SF": r"SF[A-Z0-9]\d{12}",
    "ZTO": r"7[3-68]\d{12}",
    "STO": r"(77|43)\d{12,15}",
    "YUNDA": r"[34]\d{14}",
    "EMS": r"[19]\d{12}",
    "POSTB": r"9\d{12}",
    "YZXB": r"9\d{12}",
    "JD": r"JD[A-Z0-9]{2}\d{11}",
    "DBKD": r"DPK\d{12}",
}

# For all carriers: short enough for a label, and no character that has a meaning in a barcode or in
# a printer's command language.
_PLAIN = re.compile(r"[A-Z0-9]{4,32}")
_S10 = re.compile(r"[A-Z]{2}([0-9]{8})([0-9])[A-Z]{2}")
_S10_WEIGHTS = (8, 6, 4, 2, 3, 5, 9, 7)


def check_format(number_format: str) -> None:
    """Refuses a format that is no regular expression."""
    try:
        _pattern(number_format)
    except re.error as error:
        raise CarrierError(
            "The number format {format} is not a regular expression: {why}.",
            format=number_format,
            why=str(error),
        ) from None


def number_problem(number_format: str, number: str) -> Sentence | None:
    """What is wrong with a number, or None when it is one of this format."""
    if not _PLAIN.fullmatch(number):
        return Sentence("it is not made of 4 to 32 capital letters and digits")
    if number.startswith(SANDBOX_PREFIX):
        return Sentence(
            "it begins with {prefix}, as only numbers of the sandbox do", {"prefix": SANDBOX_PREFIX}
        )
    if number_format != S10:
        fits = _pattern(number_format).fullmatch(number)
        return (
            None
            if fits
            else Sentence(
                "it does not fit the carrier's format {number_format}",
                {"number_format": number_format},
            )
        )
    parts = _S10.fullmatch(number)
    if parts is None:
        return Sentence("it does not fit S10: two letters, nine digits, two letters")
    if s10_check_digit(parts[1]) != int(parts[2]):
        return Sentence(
            "its check digit is {found} and should be {right}",
            {"found": parts[2], "right": s10_check_digit(parts[1])},
        )
    return None


def s10_check_digit(serial: str) -> int:
    """The ninth digit of an S10 number, from the eight before it."""
    total = sum(weight * int(digit) for weight, digit in zip(_S10_WEIGHTS, serial, strict=True))
    digit = 11 - total % 11
    return {10: 0, 11: 5}.get(digit, digit)


@lru_cache(maxsize=256)
def _pattern(number_format: str) -> re.Pattern[str]:
    # ASCII: \d must not match digits of other scripts.
    return re.compile(number_format, re.ASCII)
