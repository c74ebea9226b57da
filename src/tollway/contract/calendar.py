"""Which day it is in the gateway's time zone."""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from time import time
from zoneinfo import ZoneInfo


class Calendar:
    """Today in one time zone; worked out once a day, because every call asks."""

    def __init__(self, zone: ZoneInfo, now_s: Callable[[], float] = time) -> None:
        self._zone = zone
        self._now_s = now_s
        self._from_s = self._until_s = 0.0
        self._today = date.min

    def today(self) -> date:
        now_s = self._now_s()
        if not self._from_s <= now_s < self._until_s:
            now = datetime.fromtimestamp(now_s, self._zone)
            midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
            self._from_s = midnight.timestamp()
            self._until_s = (midnight + timedelta(days=1)).timestamp()
            self._today = now.date()
        return self._today
