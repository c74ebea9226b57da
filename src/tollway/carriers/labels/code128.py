"""Code 128: a text as widths of bars and gaps."""

# The widths of each symbol's bars and gaps, by the symbol's value; the last one is the stop.
_WIDTHS = """
212222 222122 222221 121223 121322 131222 122213 122312 132212 221213 221312 231212 112232 122132
122231 113222 123122 123221 223211 221132 221231 213212 223112 312131 311222 321122 321221 312212
322112 322211 212123 212321 232121 111323 131123 131321 112313 132113 132311 211313 231113 231311
112133 112331 132131 113123 113321 133121 313121 211331 231131 213113 213311 213131 311123 311321
331121 312113 312311 332111 314111 221411 431111 111224 111422 121124 121421 141122 141221 112214
112412 122114 122411 142112 142211 241211 221114 413111 241112 134111 111242 121142 121241 114212
124112 124211 411212 421112 421211 212141 214121 412121 111143 111341 131141 114113 114311 411113
411311 113141 114131 311141 411131 211412 211214 211232 2331112
""".split()  # noqa: SIM905 - a table of a hundred quoted strings would be no clearer
_TO_C, _TO_B, _START_B, _START_C, _STOP = 99, 100, 104, 105, 106
# Fewer digits are not worth the symbol that switches to pairs.
_PAIRS_FROM = 4


def bar_widths(text: str) -> list[int]:
    """Widths in modules: a bar, a gap, a bar and so on, ending with a bar."""
    values = _values(text)
    check = (values[0] + sum(weight * value for weight, value in enumerate(values))) % 103
    return [int(width) for value in (*values, check, _STOP) for width in _WIDTHS[value]]


def _values(text: str) -> list[int]:
    """The symbols: digits go in pairs (set C) where there are enough of them, which is shorter."""
    if not text.isascii() or not text.isprintable():
        raise ValueError("a barcode takes printable ASCII characters only")
    values: list[int] = []
    in_pairs = False
    at = 0
    while at < len(text):
        digits = _digits_from(text, at)
        if digits >= (2 if in_pairs else _PAIRS_FROM) and digits % 2 == 0:
            if not in_pairs:
                values.append(_TO_C if values else _START_C)
                in_pairs = True
            values.append(int(text[at : at + 2]))
            at += 2
            continue
        if in_pairs or not values:
            values.append(_TO_B if values else _START_B)
            in_pairs = False
        values.append(ord(text[at]) - 32)
        at += 1
    return values


def _digits_from(text: str, start: int) -> int:
    rest = text[start:]
    return len(rest) - len(rest.lstrip("0123456789"))
