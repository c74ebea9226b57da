"""Regular work that is tried again when it fails. In an outage of the database all of it fails,
some every second: a line for each time would fill the log."""

import logging
import time
from collections.abc import Awaitable

from tollway.store.database import StoreError

_LOG_AGAIN_S = 30

logger = logging.getLogger("tollway.gateway")


class Attempts:
    """Logs when work begins to fail, every half minute that it still does, and its end."""

    def __init__(self) -> None:
        # What fails now, and its last error.
        self._errors: dict[str, str] = {}
        self._left_out = 0
        self._since_s = self._logged_s = 0.0

    async def is_done(self, what: str, work: Awaitable[object]) -> bool:
        """Whether this work succeeds."""
        try:
            await work
        except StoreError as error:
            self.failed(what, error)
        except Exception:
            logger.exception("%s failed and will be tried again", what)
        else:
            self.succeeded(what)
            return True
        return False

    def failed(self, what: str, error: StoreError) -> None:
        now_s, text = time.monotonic(), str(error)
        is_known = text in self._errors.values()
        if not self._errors:
            self._since_s = now_s
        self._errors[what] = text
        if not is_known:
            logger.error("%s failed and will be tried again: %s", what, text)
        elif now_s < self._logged_s + _LOG_AGAIN_S:
            self._left_out += 1
            return
        else:
            logger.error(
                "still failing after %d s, and tried %d times since the last line (%s): %s",
                now_s - self._since_s,
                self._left_out + 1,
                ", ".join(self._errors),
                text,
            )
            self._left_out = 0
        self._logged_s = now_s

    def succeeded(self, what: str) -> None:
        if what in self._errors:
            # The rest of it may not be due again for long. If it fails once more, it has a line.
            self._errors.clear()
            self._left_out = 0
            seconds = time.monotonic() - self._since_s
            logger.warning("%s succeeds again, %d s after the first failure", what, seconds)
