"""Every setting: its name, default and meaning, in one class.

`cli/setting_sources.py` reads the values.
"""

from dataclasses import dataclass, field
from typing import Any
from zoneinfo import ZoneInfo

from tollway.contract.addresses import Network, networks


class SettingsError(Exception):
    """A setting is wrong; the text is one sentence for the person who set it."""


def _setting(
    default: str | int,
    meaning: str,
    *,
    least: int = 0,
    most: int = 0,
    choices: tuple[str, ...] = (),
) -> Any:
    return field(
        default=default,
        metadata={
            "meaning": meaning,
            "least": least,
            "most": most,
            "choices": choices,
        },
    )


@dataclass(frozen=True)
class Settings:
    """The settings of one gateway process."""

    database: str = _setting(
        "sqlite:///tollway.db",
        "where everything is kept; sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME",
    )
    read_database: str = _setting(
        "", "a PostgreSQL replica that reading operations read from; empty for the database itself"
    )
    read_lag_s: int = _setting(
        5, "a replica that is further behind is not read from", least=1, most=3600
    )
    database_connections: int = _setting(
        10, "connections of each worker to PostgreSQL", least=1, most=1000
    )
    key_file: str = _setting(
        "", "the keys that encrypt personal data; empty means beside the database, as FILE.keys"
    )
    mcp: str = _setting(
        "off",
        "on: /mcp offers the operations to agents; needs the package mcp (make agents)",
        choices=("off", "on"),
    )
    host: str = _setting("127.0.0.1", "the address to listen on")
    port: int = _setting(8080, "the port to listen on", least=1, most=65_535)
    workers: int = _setting(1, "how many processes serve", least=1, most=256)
    public_url: str = _setting(
        "", "the address under which owners reach this gateway; empty for http://host:port"
    )
    trusted_proxies: str = _setting(
        "",
        "addresses or networks of reverse proxies whose X-Forwarded-For is believed, with commas",
    )
    secret_file: str = _setting(
        "", "what links and sign-ins are signed with; empty for DATABASE.secret, made on first use"
    )
    consent_link_minutes: int = _setting(
        60, "how long the link of an answer 302 can be opened", least=1, most=52_560_000
    )
    oauth_token_minutes: int = _setting(
        120, "how long a token holds that a client obtains at /oauth/token", least=1, most=43_200
    )
    consent_days: int = _setting(365, "how long an owner's approval holds", least=1, most=36_500)
    receipt_days: int = _setting(
        90, "how long the receipts of calls that were not charged are kept", least=1, most=36_500
    )
    keep_orders_days: int = _setting(
        0, "orders are dropped so many days after their confirm time; 0 keeps them", most=36_500
    )
    keep_claims_days: int = _setting(
        0, "coupon claims are dropped after so many days; 0 keeps them", most=36_500
    )
    keep_entries_days: int = _setting(
        0,
        "entries and reads are dropped after so many days, their sums stay; 0 keeps them",
        most=36_500,
    )
    timezone: str = _setting("Asia/Shanghai", "the time zone of dates on the wire")
    http_status: str = _setting(
        "always_200",
        "always_200, or mapped to send the HTTP status that matches each code",
        choices=("always_200", "mapped"),
    )
    rate_limit: int = _setting(
        10,
        "calls a second per account and operation, where a permission sets no other",
        least=1,
        most=10**6,
    )
    call_timeout_s: int = _setting(10, "a call that waits longer answers 101", least=1, most=3600)
    charge_wait_ms: int = _setting(
        5,
        "on PostgreSQL: how long charges may wait to share a commit if the cores are short",
        most=1000,
    )
    reconcile_interval_s: int = _setting(
        15, "how often carriers are asked about waybills without an answer", least=1, most=86_400
    )
    label_phone: str = _setting(
        "masked",
        "the receiver's phone on labels: masked, without its middle, or whole",
        choices=("masked", "whole"),
    )
    label_colours: str = _setting(
        "off",
        "on: labels have the carrier's colour, which thermal printers do not",
        choices=("off", "on"),
    )
    body_timeout_s: int = _setting(10, "a slower request body is refused", least=1, most=3600)
    webhook_internal_hosts: str = _setting(
        "",
        "hosts, separated by commas, that webhooks, and carriers connected on a page, may have "
        "although they are internal",
    )
    push_max_bytes: int = _setting(8_388_608, "a larger push is refused", least=1024, most=2**30)
    header_max_bytes: int = _setting(
        16_384, "larger request headers are refused", least=8192, most=2**20
    )
    header_timeout_s: int = _setting(
        10, "slower request headers end the connection", least=1, most=3600
    )
    read_timeout_s: int = _setting(
        10, "a client that reads its answers slower loses the connection", least=1, most=3600
    )
    connections_max: int = _setting(
        4096, "connections of each worker at once; more wait to be accepted", least=1, most=10**6
    )
    drain_s: int = _setting(
        0, "how long a stop still answers while /readyz says no, so that no call is lost", most=3600
    )
    shutdown_timeout_s: int = _setting(
        30, "how long a stop waits for calls under way", least=1, most=3600
    )
    log_level: str = _setting(
        "info", "debug, info, warning or error", choices=("debug", "info", "warning", "error")
    )
    log_calls: str = _setting(
        "failures",
        "which calls get a log line: failures (successes are in the ledger), all, or none",
        choices=("failures", "all", "none"),
    )

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)

    @property
    def proxies(self) -> tuple[Network, ...]:
        return networks(self.trusted_proxies.split(","))

    @property
    def internal_hosts(self) -> list[str]:
        return self.webhook_internal_hosts.split(",")

    @property
    def address(self) -> str:
        """Where the gateway itself listens."""
        return self._at(self.host)

    @property
    def public_address(self) -> str:
        """Where owners and callers reach the gateway: on this machine, if nothing else is set."""
        # What stands for all addresses cannot be opened everywhere.
        loopback = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - not what it listens on
        here = loopback.get(self.host, self.host)
        return self.public_url.rstrip("/") or self._at(here)

    def _at(self, host: str) -> str:
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"
