"""The carrier protocols: the built-in ones, and those of installed packages.

A package brings one by the entry point `tollway.carriers`, under the name that operators use to
connect a carrier. It is loaded when a carrier first needs it, so that a fault in it affects only
that carrier.
"""

from collections.abc import Callable, Iterable
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from inspect import signature
from typing import TYPE_CHECKING

from tollway.carriers import CarrierError
from tollway.carriers.carrier_links import CAINIAO_LINK, SIGNED_FORM, OpenedCarrierLink
from tollway.carriers.carriers import Carrier
from tollway.carriers.connectors.connector import Connector

if TYPE_CHECKING:
    import httpx2

ENTRY_POINTS = "tollway.carriers"
# Entry points too, so that a command that only names protocols does not load them.
_BUILT_IN = {
    name: EntryPoint(name, f"tollway.carriers.connectors.{place}", ENTRY_POINTS)
    for name, place in (
        (CAINIAO_LINK, "cainiao_link:CainiaoConnector"),
        (SIGNED_FORM, "signed_form:SignedFormConnector"),
    )
}

# The HTTP client of the process, the carrier, and its link with the secret.
MakeConnector = Callable[["httpx2.AsyncClient", Carrier, OpenedCarrierLink], Connector]


class Protocols:
    """The protocols that this gateway can speak."""

    def __init__(
        self, find: Callable[[], Iterable[EntryPoint]] = lambda: entry_points(group=ENTRY_POINTS)
    ) -> None:
        self._find = find
        self._loaded: dict[str, MakeConnector] = {}

    @cached_property
    def _installed(self) -> list[EntryPoint]:
        return sorted(self._find())

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys((*_BUILT_IN, *(each.name for each in self._installed))))

    def named(self, name: str) -> MakeConnector:
        """The protocol of this name; a CarrierError says why there is none."""
        if name not in self._loaded:
            self._loaded[name] = _load(self._entry_point(name))
        return self._loaded[name]

    def _entry_point(self, name: str) -> EntryPoint:
        if name in _BUILT_IN:
            return _BUILT_IN[name]
        found = [each for each in self._installed if each.name == name]
        if not found:
            raise CarrierError(
                "The carrier protocol {protocol} is not installed here: install the package that "
                "brings it, or connect the carrier with {known}.",
                protocol=name,
                known=" or ".join(self.names),
            )
        if len(found) > 1:
            packages = " and ".join(map(_package, found))
            raise CarrierError(
                "The packages {packages} both bring the carrier protocol {protocol}: uninstall "
                "one.",
                packages=packages,
                protocol=name,
            )
        return found[0]


def _load(entry_point: EntryPoint) -> MakeConnector:
    try:
        made: MakeConnector = entry_point.load()
        _check(made)
    except (Exception, SystemExit) as error:
        raise CarrierError(
            "The carrier protocol {protocol} of the package {package} cannot be loaded "
            "({kind}: {why}): correct it or uninstall it.",
            protocol=entry_point.name,
            package=_package(entry_point),
            kind=type(error).__name__,
            why=str(error),
        ) from error
    return made


def _check(made: object) -> None:
    """Raises TypeError if it cannot make a connector, or lacks a method that a connector needs."""
    if not callable(made):
        raise TypeError("it is no class or function")
    try:
        signature(made).bind("client", "carrier", "link")
    except TypeError as error:
        raise TypeError(
            f"it does not take three arguments, a client, a carrier and its link: {error}"
        ) from error
    for name in ("issue", "look_up", "cancel"):
        if isinstance(made, type) and not callable(getattr(made, name, None)):
            raise TypeError(f"it has no method {name}")


def _package(entry_point: EntryPoint) -> str:
    return entry_point.dist.name if entry_point.dist else entry_point.name


PROTOCOLS = Protocols()
