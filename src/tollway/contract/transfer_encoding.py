"""What a part of a form contains, by its Content-Transfer-Encoding, a header from mail. Libraries
that send mail too write texts in quoted-printable or base64 (Indy of Delphi does by default).
"""

import re
from binascii import a2b_base64, a2b_qp

from tollway.contract.language import Phrase

_AS_IT_IS = {"", "7bit", "8bit", "binary"}
_BASE64 = re.compile(rb"[A-Za-z0-9+/]*+={0,2}+")
# An equals sign begins a byte, or ends a line that goes on in the next one.
_QUOTED = re.compile(rb"[^=]*+(?:=(?:[0-9A-Fa-f]{2}|\r?\n|\Z)[^=]*+)*+")
_NOT_BASE64 = Phrase(
    "it is not base64, as its Content-Transfer-Encoding says",
    "不是有效的 base64（见其 Content-Transfer-Encoding）",
)
_NOT_QUOTED = Phrase(
    "it is not quoted-printable, as its Content-Transfer-Encoding says",
    "不是有效的 quoted-printable（见其 Content-Transfer-Encoding）",
)
_UNKNOWN = Phrase(
    "its Content-Transfer-Encoding is not known; leave that header out and send it as it is",
    "不支持其 Content-Transfer-Encoding，请去掉该头并直接发送内容",
)


def transferred(encoding: str, content: bytes) -> bytes | Phrase:
    """The bytes that were meant, or what is wrong with them."""
    encoding = encoding.strip().lower()
    if encoding in _AS_IT_IS:
        return content
    if encoding == "base64":
        packed = content.translate(None, b" \t\r\n")
        is_whole = len(packed) % 4 == 0 and _BASE64.fullmatch(packed)
        return a2b_base64(packed) if is_whole else _NOT_BASE64
    if encoding == "quoted-printable":
        return a2b_qp(content) if _QUOTED.fullmatch(content) else _NOT_QUOTED
    return _UNKNOWN
