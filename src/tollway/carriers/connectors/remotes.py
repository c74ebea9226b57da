"""The connectors of one process: one HTTP client for all carriers, one breaker for each."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tollway.carriers import CarrierError
from tollway.carriers.carrier_links import OpenedCarrierLink
from tollway.carriers.carriers import Carrier
from tollway.carriers.connectors.breaker import Breaker
from tollway.carriers.connectors.connector import NotSentError
from tollway.carriers.connectors.guarded import GuardedConnector
from tollway.carriers.connectors.protocols import PROTOCOLS, Protocols

# Few gateways have remote carriers: the HTTP client is loaded for the first message to one.
if TYPE_CHECKING:
    import httpx2

_log = logging.getLogger("tollway.carriers")


class Remotes:
    """Makes connectors; what is known of a carrier's health outlives each of them."""

    def __init__(
        self,
        client: "httpx2.AsyncClient | None" = None,
        now_s: Callable[[], float] = time.monotonic,
        protocols: Protocols = PROTOCOLS,
    ) -> None:
        self._client = client
        self._now_s = now_s
        self._protocols = protocols
        self._breakers: dict[str, Breaker] = {}

    def connector(
        self, carrier: Carrier, opened: OpenedCarrierLink, *, is_counted: bool = True
    ) -> GuardedConnector:
        """Raises NotSentError while the protocol of the link is not installed. What is not counted
        neither shuts the carrier nor probes whether it answers again."""
        try:
            make = self._protocols.named(opened.link.protocol)
        except CarrierError as error:
            _log.error("carrier %s cannot be asked: %s", carrier.wp_code, error)
            raise NotSentError.of(error.sentence) from None
        breaker = self._breakers.get(carrier.wp_code)
        if breaker is None:
            breaker = self._breakers[carrier.wp_code] = Breaker(carrier.wp_code, self._now_s)
        inner = make(self._open_client(), carrier, opened)
        return GuardedConnector(inner, carrier, opened.link, breaker, is_counted=is_counted)

    def is_refusing(self, wp_code: str) -> bool:
        """Whether a message to a carrier would not be sent now."""
        breaker = self._breakers.get(wp_code)
        return breaker is not None and breaker.is_refusing

    @property
    def breakers(self) -> Mapping[str, Breaker]:
        """By wp_code, for the metrics."""
        return self._breakers

    def _open_client(self) -> "httpx2.AsyncClient":
        if self._client is None:
            from tollway.carriers.connectors.http_exchange import open_client  # noqa: PLC0415

            self._client = open_client()
        return self._client

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
