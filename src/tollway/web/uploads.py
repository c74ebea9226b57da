"""What forms send: a short body, and a form with a file, which goes to disk and not into memory."""

import asyncio
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from multipart import MultipartError, PushMultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from tollway.web.page_errors import PageError

FILE_MAX_BYTES = 512 * 2**20
_FIELD_MAX_BYTES = 4096
_FIELDS_MAX = 20
_TIMEOUT_S = 1800
_SHORT_TIMEOUT_S = 10
# How much of a body that is too large is still read: proxies and some clients send all of it before
# they look at an answer, and lose it if the connection ends.
_PASSED_OVER_MAX = 16 * 2**20
FILE_FIELD = "file"


async def read_body(request: Request, most: int) -> bytes:
    body, size = bytearray(), 0
    try:
        async with asyncio.timeout(_SHORT_TIMEOUT_S):
            async for chunk in request.stream():
                size += len(chunk)
                if size <= most:
                    body += chunk
                elif size > _PASSED_OVER_MAX:
                    break
    except (TimeoutError, ClientDisconnect):
        raise PageError(408, "This form did not arrive", "Please send it again.") from None
    if size > most:
        raise PageError(413, "This form is too large", "Send less.")
    return bytes(body)


class Upload:
    """The fields that came before the file, and the file. Its name is the sender's, reduced to what
    pages can show and every database can store."""

    def __init__(self) -> None:
        self.fields: dict[str, str] = {}
        self.name = ""
        self.path: Path | None = None
        self._file: IO[bytes] | None = None
        # The part that arrives now, and how many there were.
        self._part = ""
        self._is_file = False
        self._value = bytearray()
        self._count = 0

    def take(self, parser: PushMultipartParser, chunk: bytes) -> None:
        """Sorts the parts of a form as they arrive."""
        for event in parser.parse(chunk):
            if event is None:
                if not self._is_file:
                    self.fields[self._part] = self._value.decode(errors="replace")
            elif isinstance(event, (bytes, bytearray)):
                self._add(bytes(event))
            else:
                self._count += 1
                self._part, self._value = event.name, bytearray()
                self._is_file = event.name == FILE_FIELD and self.path is None
                if self._count > _FIELDS_MAX:
                    raise PageError(400, "This form cannot be read", "Send it from the page.")
                if self._is_file:
                    self.begin_file(event.filename or "")

    def _add(self, content: bytes) -> None:
        if self._is_file:
            self.write(content)
            return
        self._value += content
        if len(self._value) > _FIELD_MAX_BYTES:
            raise PageError(413, "This form is too large", "Send less.")

    def begin_file(self, name: str) -> None:
        last = Path(name.replace("\\", "/")).name
        self.name = "".join(each for each in last if each.isprintable()).strip()[-100:]
        # It has no name in any folder: a process that is killed leaves nothing of the orders in it.
        self._file = TemporaryFile()  # noqa: SIM115 - `drop` closes it
        self.path = Path(f"/proc/self/fd/{self._file.fileno()}")

    def write(self, content: bytes) -> None:
        assert self._file is not None
        self._file.write(content)

    def end_file(self) -> None:
        if self._file is not None:
            self._file.flush()

    def drop(self) -> None:
        # Without its path, which may soon be that of another file.
        self.path, file, self._file = None, self._file, None
        if file is not None:
            file.close()


async def read_upload(request: Request) -> Upload:
    """Reads the form; the caller checks its token before using the file, or drops the upload."""
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != "multipart/form-data" or "boundary" not in options:
        raise PageError(400, "This form cannot be read", "Send it from the page.")
    upload, size = Upload(), 0
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            with PushMultipartParser(options["boundary"], strict=True) as parser:
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > FILE_MAX_BYTES:
                        raise PageError(413, "This file is too large", "Load it at the terminal.")
                    await asyncio.to_thread(upload.take, parser, chunk)
    except (TimeoutError, ClientDisconnect):
        upload.drop()
        raise PageError(408, "This form did not arrive", "Please send it again.") from None
    except MultipartError:
        upload.drop()
        raise PageError(400, "This form cannot be read", "Send it from the page.") from None
    except BaseException:
        upload.drop()
        raise
    upload.end_file()
    return upload
