"""Why a record was rejected, in the reader's language.

A reason is stored as the English text that its sender gets, so that the reject file and the command
line have the same. It is made of few phrases: they are found again here, and said in another
language. A reason with a part that is none of them, such as the text of an installed package, is
shown as it is.
"""

import re
from collections.abc import Sequence

from tollway.web.wording import Say, sentence, sentences

_WHOLE = sentence("{field}: {problem}; send {expected}.")
_OTHER = sentences(
    'the record is not a JSON object; send one, as {"name": "value"}.',
    "the line is over 1 MiB, and only its beginning is kept; write shorter records.",
    "the line is not CSV; put cells that have quotes or line breaks into quotes, and at most "
    "131,072 characters into each.",
    "the line has 1 cell, the header {columns}; leave a cell empty that has no value.",
    "the line has {cells} cells, the header {columns}; leave a cell empty that has no value.",
    "{field}: it is a number of over 15 digits, which a spreadsheet rounds; format the column as "
    "text.",
    "{field}: its formula has the error {error}; correct it.",
)
PROBLEMS = sentences(
    *("it is missing", "it is empty", "it is null", "it is true or false", "it is a list"),
    *("it is an object", "it is a number", "it is a text", "it is not a number"),
    *("it is negative", "it is too large", "it is neither", "it is none of these"),
    *("it is another", "it is not an address", "it is not a date of the calendar"),
    *("it is more than a day ahead", "it is before the year 2000", "it is before begin_time"),
    *("it is more than total_count", "it is not after display_start_ms", "it does not fit"),
    *("it has a sign", "it has an exponent", "it has another form", "it has the parameter pid"),
    *("it has decimals", "it has {count} decimals", "it has {count} entries"),
    *("it has {count} characters", "it is {number}", "it contains a NUL character"),
    "it contains a line break or a control character",
    "it contains half of a surrogate pair, or bytes that are not UTF-8",
    "a field's name is not valid text",
    *("this source does not speak for the shop", "this source does not speak for the channel"),
)
# One that begins with a value comes after those that it would take for one.
EXPECTED = sentences(
    *("an object", "true or false", "a date as YYYY-MM-DD", "a value that fits", "a later time"),
    *("names in UTF-8", "a time that is not", "a number that is not"),
    *("the time at which it happened", "the date on which it happened"),
    *("records of its own shops", "records of its own channels"),
    "an address that begins with http:// or https://, of at most 2,000 characters",
    "a time in seconds, before the year 2200, as 1768406400",
    "a time in milliseconds, before the year 2200, as 1768406400000",
    "yuan with at most two decimals, from 0 to 1000000000000, as 12.50",
    "a whole address without pid: each caller's own is put in",
    "4 for food delivery, or 6 for flash purchase",
    *("a text of {least} to {most} characters", "a whole number from {least} to {most}"),
    *("a list of at most {most} objects", "one of the texts {choices}", "one of {choices}"),
    *("it with type {type}", "{value} with type {type}"),
)


# A reason repeats nothing that a record says, but for numbers.
_VALUES = {"number": "-?[0-9.]+", "count": "[0-9,]+"}


def _pattern(template: str) -> re.Pattern[str]:
    """What a template looks like once its values are filled in."""
    parts = re.split(r"\{(\w+)\}", template)
    texts = [re.escape(each) for each in parts[::2]]
    named = [f"(?P<{name}>{_VALUES.get(name, '.+?')})" for name in parts[1::2]]
    return re.compile("".join(a + b for a, b in zip(texts, [*named, ""], strict=True)), re.DOTALL)


# What is between the name of an uploaded file and the reason: the line. A name can have the same.
_LINE = re.compile(r", (\d+): ")
_PATTERNS = {each: _pattern(each) for each in (_WHOLE, *_OTHER, *PROBLEMS, *EXPECTED)}


def said_reason(say: Say, reason: str) -> str:
    for found in reversed(list(_LINE.finditer(reason))):
        said = _said_without_line(say, reason[found.end() :])
        if said is not None:
            file, line = reason[: found.start()], found[1]
            return say("{file}, {line}: {reason}", file=file, line=line, reason=said)
    return _said_without_line(say, reason) or reason


def _said_without_line(say: Say, reason: str) -> str | None:
    whole = _PATTERNS[_WHOLE].fullmatch(reason)
    if whole is None:
        return said_phrase(say, reason, _OTHER)
    problem = said_phrase(say, whole["problem"], PROBLEMS)
    expected = said_phrase(say, whole["expected"], EXPECTED)
    if problem is None or expected is None:
        return None
    return say(_WHOLE, field=whole["field"], problem=problem, expected=expected)


def said_phrase(say: Say, text: str, known: Sequence[str]) -> str | None:
    """A text in the reader's language, if it is one of these phrases."""
    for template in known:
        found = _PATTERNS[template].fullmatch(text)
        if found is not None:
            return say(template, **found.groupdict()) if found.groupdict() else say(template)
    return None
