"""What may be shown of a receiver: enough to tell two apart, too little to reach either.

Each function decides what to show and hides everything else, so the unforeseen is hidden. Each
looks at a bounded part of its text, or passes over it once: the author of an address must not be
able to slow a page down.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

_HIDDEN = "***"
_HIDDEN_DIGITS = "****"

# -- Addresses ------------------------------------------------------------------------------------
# No more than this is examined, and names of places only at its beginning.
_ADDRESS_MAX = 96
_PLACES_MAX = 48
_DESIGNATORS_MAX = 6
# A name of a place has no more characters than this before its last one.
_NAME_MAX = 8
_LATIN_NAME_MAX = 24
_NAME_AFTER_NUMERAL_MAX = 3

# Numerals are shown in a name (文三路, 三里屯), and nowhere else.
_NUMERALS = frozenset(
    "一二三四五六七八九十百千万萬亿億兆零两兩俩倆仨幺半廿卄廾卅卌弌弍弎弐壱亖"
    "壹贰貳貮叁参參叄肆伍陆陸柒漆捌玖拾什佰陌仟阡㐅㒃㠪㭍"
)
_PLAIN_NUMERALS = frozenset("一二三四五六七八九十百千")
# What follows several numerals in the name of a road: 五一路, 十二大街, 五四广场.
_ROADS = frozenset("路街道巷村镇鎮乡鄉屯环環场場")
_ROAD_LINKS = frozenset("大广廣东東南西北中支")
# What follows the number or letter of a house, a building, a floor, a room.
_COUNTED = frozenset("号號栋棟幢单單室楼樓层層座户戶弄期组組队隊社房门門排梯区區院厂廠杠之")
# What ends the name of a place only after the character given here.
_PAIRED_ENDS = {"场": "广", "場": "廣", "厦": "大", "廈": "大", "同": "胡"}

_KINDS = (
    dict.fromkeys("省市区區县縣旗盟州镇鎮乡鄉村屯庄莊寨堡路街道巷坊园園苑城湾灣庭府邸墅郡寓", "end")
    | dict.fromkeys(_PAIRED_ENDS, "paired end")
    | dict.fromkeys(_NUMERALS, "numeral")
    # These begin the detail with no number before them.
    | dict.fromkeys("0123456789号號栋棟幢室座弄层層", "detail")
    | dict.fromkeys("甲乙丙丁戊己庚辛壬癸", "stem")
    | dict.fromkeys("单單", "unit")
    | dict.fromkeys(",，、", "comma")
    | dict.fromkeys(" \u3000", "blank")
    | dict.fromkeys("·", "mark")
)
# What follows these characters where they begin the detail.
_DETAIL_AFTER: dict[str, frozenset[str]] = {"stem": _COUNTED, "unit": frozenset("元")}

_LATIN_ENDS = frozenset(
    """road rd street st avenue ave lane ln drive boulevard blvd terrace crescent square plaza park
    garden gardens court estate estates village town city district county province island
    lu jie dajie dadao xiaoqu""".split()  # noqa: SIM905
)
# Words that begin the detail, and numbers in words, which are hidden even in a name.
_LATIN_DETAILS = frozenset(
    """apartment apt flat unit suite ste room block blk tower twr building bldg house villa floor
    flr level door gate phase lot number num nos box care attn tel phone mobile
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety
    hundred thousand hao dong zhuang danyuan lou ceng shi fang ling liang san liu jiu bai qian
    """.split()  # noqa: SIM905
)
_LATIN_SHORTEST = 3

# What may be shown of the detail: which numbers it has, not the numbers.
_DESIGNATOR = re.compile("([号號栋棟幢室楼樓层層弄座户戶期]|[单單]元)")


_ZEROS_ALONE = bytes.maketrans(b"123456789", b"000000000")
# Texts of records have none; if one does, each address is masked separately.
_SEPARATOR = "\0"


def masked_address(address: str) -> str:
    """The areas, road and estate that an address begins with, and an outline of the rest."""
    return _masked_address(_with_zeros_alone(address))


def masked_addresses(addresses: Sequence[str]) -> list[str]:
    """The same for many, in a fifth of the time for each.

    The values of an address's digits make no difference: so most addresses on one road are alike,
    and computed once for a whole import.
    """
    alike = _with_zeros_alone(_SEPARATOR.join(addresses)).split(_SEPARATOR.encode())
    if len(alike) != len(addresses):
        return list(map(masked_address, addresses))
    return list(map(_masked_address, alike))


def _with_zeros_alone(text: str) -> bytes:
    """The text with every digit 0 to 9 replaced by a zero."""
    return text.encode(errors="surrogatepass").translate(_ZEROS_ALONE)


@lru_cache(maxsize=4096)
def _masked_address(encoded: bytes) -> str:
    address = encoded.decode(errors="surrogatepass")
    text = _DIGITS.sub("0", address[:_ADDRESS_MAX].strip())
    end = _places_end(text[:_PLACES_MAX])
    return text[:end] + _outline(text[end:])


def _outline(detail: str) -> str:
    """`***号***幢***室` for `478号3幢1201室`."""
    pieces = _DESIGNATOR.split(detail, _DESIGNATORS_MAX)
    pieces[::2] = [_HIDDEN if text.strip() else "" for text in pieces[::2]]
    return "".join(pieces) if pieces[0] else _HIDDEN + "".join(pieces)


def _places_end(text: str) -> int:
    """Where the names of areas, roads and estates at the beginning of the text end."""
    end = begin = resume = 0
    limit = _NAME_MAX
    for position, char in enumerate(text):
        if position < resume:
            continue
        kind = _KINDS.get(char)
        if kind == "detail" or position > limit:
            break
        if kind is None and "\u4e00" <= char <= "\u9fff":
            continue
        if kind == "end" or (kind == "paired end" and text[position - 1] == _PAIRED_ENDS[char]):
            if position > begin:
                end = position + 1
                limit = end + _NAME_MAX
        elif kind == "numeral":
            resume = _after_numeral(text, position)
            limit = min(limit, resume + _NAME_AFTER_NUMERAL_MAX)
        elif kind == "comma" or (kind == "blank" and not _is_between_words(text, position)):
            # Words that do not end as a place does can be the name of a person.
            if position not in {begin, end}:
                break
            begin = position + 1
        elif kind is None:
            resume, is_end = _latin_word(text, position)
            if resume == position:
                break
            end = resume if is_end and position > begin else end
            limit = max(limit, end + _LATIN_NAME_MAX)
        elif text[position + 1 : position + 2] in _DETAIL_AFTER.get(kind, ()):
            break
    return end


def _after_numeral(text: str, position: int) -> int:
    """The position after numerals that are part of a name; the end of the text for others."""
    after = position + 1
    following = text[after : after + 1]
    if following not in _NUMERALS:
        is_name = "\u4e00" <= following <= "\u9fff" and following not in _COUNTED
        return after if is_name else len(text)
    while text[after : after + 1] in _PLAIN_NUMERALS and after < position + 3:
        after += 1
    following = text[after : after + 1]
    is_linked = following in _ROAD_LINKS and text[after + 1 : after + 2] in _ROADS
    is_name = text[position] in _PLAIN_NUMERALS and (is_linked or following in _ROADS)
    return after if is_name else len(text)


def _is_latin(char: str) -> bool:
    return char < "\u0250" and (char.isalpha() or char in {"'", "."})


def _is_between_words(text: str, position: int) -> bool:
    return _is_latin(text[position - 1]) and _is_latin(text[position + 1 : position + 2])


def _latin_word(text: str, position: int) -> tuple[int, bool]:
    """The position after a word of a name, and whether it ends the name; the given position if it
    is no such word."""
    after = position
    while after < len(text) and _is_latin(text[after]):
        after += 1
    word = text[position:after].rstrip(".").lower()
    if word in _LATIN_ENDS:
        return after, True
    is_word = len(word) >= _LATIN_SHORTEST and "." not in word and word not in _LATIN_DETAILS
    is_number = not word.strip("ivx") or text[after : after + 1] in _COUNTED
    return (after if is_word and not is_number else position), False


# -- Names and phones -----------------------------------------------------------------------------
_PHONE_MAX = 64
# Nothing is shown of a shorter number, so that four digits are always hidden.
_SHOWN_FROM = 8
_MASKED_PHONE = re.compile(r"\+?+[0-9]{0,3}+\*{4}[0-9]{0,4}+")
_PHONE = re.compile(r"\+?+[0-9][0-9\s()（）.\-‐-―－_]*+")
_DIGITS = re.compile(r"[0-9]++")
# Numerals in spoken numbers (洞 is 0, 拐 is 7, 勾 is 9). Most have a Unicode value only in Python
# 3.13 and later: listed here, so that every version hides them.
_SPOKEN = frozenset("洞拐勾钩鈎皕秭两俩倆")
# Has a Unicode value too, but is part of 北京 and 南京.
_CAPITAL = "京"


def masked_name(name: str) -> str:
    """At most its first letter or character."""
    name = name.strip()
    if len(name) < 2:
        return "*" * len(name)
    return f"{name[0]}**" if name[0].isalpha() else "**"


def masked_phone(phone: str) -> str:
    """The first digits and the last ones of the number, and nothing of an extension."""
    if len(phone) == 11 and phone.isascii() and phone.isdecimal():  # as most are
        return f"{phone[:3]}{_HIDDEN_DIGITS}{phone[7:]}"
    if _MASKED_PHONE.fullmatch(phone):
        return phone
    text = _with_plain_digits(phone[:_PHONE_MAX])
    found = _PHONE.search(text)
    if found is None:
        return _HIDDEN_DIGITS
    sign = "+" if found[0].startswith("+") else ""
    number, shortest, longest, is_known = "", 0, 0, False
    for group in _DIGITS.findall(found[0]):
        number += group
        shortest, longest, is_known = _form(number, is_foreign=bool(sign))
        if len(number) >= shortest:
            break
    digits = len(number.removeprefix("00"))
    if digits < _SHOWN_FROM:
        return _HIDDEN_DIGITS
    first, last = (3, 4) if digits >= 11 else (2, 2)
    # If the form is unknown, further digits may belong to the number or to an extension.
    is_alone = len(phone) <= _PHONE_MAX and len(number) == len("".join(_DIGITS.findall(text)))
    is_whole = is_alone or (is_known and len(number) >= shortest)
    tail = number[-last:] if is_whole and len(number) <= longest else ""
    return f"{sign}{number[:first]}{_HIDDEN_DIGITS}{tail}"


def _form(number: str, *, is_foreign: bool) -> tuple[int, int, bool]:
    """How many digits a number with this beginning has at least and at most, and whether that is
    certain."""
    exit_code = 2 if number.startswith("00") else 0
    national = number[exit_code:].removeprefix("86")
    if national[:1] == "1" and "3" <= national[1:2] <= "9":
        whole = len(number) - len(national) + 11
        return whole, whole, True
    if is_foreign or exit_code:
        return exit_code + 9, exit_code + 13, False
    return (11, 12, True) if number.startswith("0") else (7, 13, False)


def _with_plain_digits(text: str) -> str:
    """The text with digits of any script as 0 to 9; empty if it has other numerals."""
    if text.isascii():
        return text
    plain = []
    for char in text.replace("＋", "+"):
        is_named_here = char == _CAPITAL or char in _SPOKEN
        value = None if is_named_here else unicodedata.numeric(char, None)
        if value is None and char not in _NUMERALS and char not in _SPOKEN:
            plain.append(char)
        elif value is not None and value in range(10):
            plain.append(str(int(value)))
        else:
            return ""
    return "".join(plain)


# -- Remarks --------------------------------------------------------------------------------------
# What counts as a digit. A class of ranges costs half as much as one with \d and \s in it.
_ZEROS = (
    "0\u0660\u06f0\u07c0\u0966\u09e6\u0a66\u0ae6\u0b66\u0be6\u0c66\u0ce6\u0d66\u0de6"
    "\u0e50\u0ed0\u0f20\u1040\u1090\u17e0\u1810\u1946\u19d0\u1a80\u1a90\u1b50\u1bb0\u1c40"
    "\u1c50\ua620\ua8d0\ua900\ua9d0\ua9f0\uaa50\uabf0\uff10"
)
_NUMBER = (
    "".join(f"{zero}-{chr(ord(zero) + 9)}" for zero in _ZEROS)
    + "".join(sorted(_NUMERALS | _SPOKEN))
    # Numbers that are no digits, such as ① and Ⅻ.
    + r"\xb2\xb3\xb9\xbc-\xbe\u09f4-\u09f9\u0b72-\u0b77\u0bf0-\u0bf2\u0c78-\u0c7e\u0d58-\u0d5e"
    r"\u0d70-\u0d78\u0f2a-\u0f33\u1369-\u137c\u16ee-\u16f0\u17f0-\u17f9\u19da\u2070\u2074-\u2079"
    r"\u2080-\u2089\u2150-\u2182\u2185-\u2189\u2460-\u249b\u24ea-\u24ff\u2776-\u2793\u2cfd\u3007"
    r"\u3021-\u3029\u3038-\u303a\u3192-\u3195\u3220-\u3229\u3248-\u324f\u3251-\u325f\u3280-\u3289"
    r"\u32b1-\u32bf\ua6e6-\ua6ef\ua830-\ua835\uf96b\uf973\uf978\uf9b2\uf9d1\uf9d3\uf9fd"
    r"\U0001f100-\U0001f10c\U0001f51f\U0001fbf0-\U0001fbf9"
    # Rare scripts and characters, whole: their numbers are scattered among their letters.
    r"\U00010000-\U0001efff\U00020000-\U0002ffff"
)
# What may stand between the digits of one number: blanks, dashes, brackets, invisible marks, and
# the words for an extension.
_BETWEEN = (
    r"\t-\r \x85\xa0\xad\u0300-\u036f\u1680\u2000-\u2015\u2028-\u202f\u205f-\u2069\u20e3\u2212"
    r"\u3000\ufe0e\ufe0f\ufeff\-－_.·•/\\|~～+＋*()（）\[\]【】转轉分机"
)
# Possessive, so that it never backtracks: a number that is too short costs a look at six digits.
_LONG_NUMBER = re.compile(f"[{_NUMBER}](?:[{_BETWEEN}]{{0,8}}+[{_NUMBER}]){{6,}}+")

# A mobile number in groups, with commas too: a long number may not contain commas, because lists of
# short numbers do. It may have a prefix: 86, 0086 or 0.
_DIGIT = "0-9０-９"
_PREFIX = "[0０][0０][8８][6６]|[8８][6６]|[0０]|"
# The groups in which it is spoken, with anything between them.
_SPOKEN_GROUPS = f"[3-9３-９][{_DIGIT}](?:[^{_DIGIT}]{{1,3}}+[{_DIGIT}]{{4}}){{2}}"
# Any groups, if the same stands between them, and no letters: those are units, as in a list of
# prices.
_ANY_GROUPS = (
    rf"(?=[{_DIGIT}]{{0,9}}+(?P<between>[\W_]{{1,3}}+))"
    rf"(?P=between)?+[3-9３-９](?:(?P=between)?+[{_DIGIT}]){{9}}"
)
_MOBILE = re.compile(
    # What it begins with comes first, since most texts have no such digit.
    f"(?=[018０１８])(?<![{_DIGIT}])(?:{_PREFIX})[1１](?:{_SPOKEN_GROUPS}|{_ANY_GROUPS})"
    f"(?![{_DIGIT}])"
)
_ANY_MOBILE = "0" * 11


def masked_remark(remark: str) -> str:
    """The text without its numbers of seven digits or more, which can be phones."""
    # First, since a long number can have the end of one mobile and the start of the next one, which
    # would leave the rest of both. Written as one number, it is hidden with what goes on from it.
    return _LONG_NUMBER.sub(_HIDDEN, _MOBILE.sub(_ANY_MOBILE, remark))
