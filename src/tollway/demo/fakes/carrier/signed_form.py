"""Signed forms from the carrier's side: messages are read, answers are signed."""

import json
from base64 import b64encode
from hashlib import md5
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode


class Message(NamedTuple):
    """A message whose digest is right."""

    kind: str
    content: dict[str, Any]

    @property
    def object_id(self) -> str:
        return str(self.content.get("objectId", ""))


class MessageError(Exception):
    """A message that is not passed on; the arguments are the gateway's code and its words."""

    def __init__(self, code: str, words: str, object_id: str = "") -> None:
        super().__init__(code, words)
        self.code, self.words, self.object_id = code, words, object_id


def read_message(body: bytes, secret: str) -> Message:
    fields = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    text = fields.get("logistics_interface", "")
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise MessageError("S05", "The content is not a JSON object.")
    message = Message(fields.get("msg_type", ""), content)
    if fields.get("data_digest") != digest_of(text, secret):
        raise MessageError("S02", "The digest is wrong.", message.object_id)
    if not fields.get("logistic_provider_id") or not fields.get("to_code"):
        raise MessageError("S03", "The provider or the receiver is missing.", message.object_id)
    return message


def written_answer(content: dict[str, Any], secret: str) -> bytes:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return urlencode({"logistics_interface": text, "data_digest": digest_of(text, secret)}).encode()


def digest_of(text: str, secret: str) -> str:
    hashed = md5(usedforsecurity=False)
    hashed.update(text.encode("utf-8"))
    hashed.update(secret.encode("utf-8"))
    return b64encode(hashed.digest()).decode("ascii")
