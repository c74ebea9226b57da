"""What a call is answered with: code, HTTP status and message. `reasons` has the table of them."""

from typing import NamedTuple

from tollway.contract.language import Phrase


class Cause(NamedTuple):
    """`status` is what is sent when the setting http_status is "mapped"."""

    code: int
    status: int
    message: Phrase


SUCCESS = Cause(0, 200, Phrase("Success", "成功"))
