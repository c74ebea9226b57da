"""Where the settings come from, and whether they will do.

A value comes from the first of: a command-line option, a `TOLLWAY_<NAME>` variable, `tollway.toml`
in the working directory (or where `TOLLWAY_CONFIG` points), the default. `tollway settings` prints
them all with their origin.
"""

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import Field, dataclass, fields
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tollway.settings import Settings, SettingsError

_VARIABLE = "TOLLWAY_"
_HOST = re.compile(r"[A-Za-z0-9_.-]+")
# Variables that are not settings of the gateway.
_NOT_SETTINGS = ("TOLLWAY_CONFIG", "TOLLWAY_TEST_")


@dataclass(frozen=True)
class Origin:
    """One setting's value and where it came from."""

    name: str
    value: str | int
    source: str
    meaning: str


def load_settings(
    options: Mapping[str, object] | None = None,
) -> tuple[Settings, tuple[Origin, ...]]:
    """The settings in force, and the origin of each."""
    named = os.environ.get("TOLLWAY_CONFIG")
    file_path = Path(named or "tollway.toml")
    from_file = _read_file(file_path, required=bool(named))
    from_variables = _read_variables()
    layers: tuple[tuple[str, Mapping[str, object]], ...] = (
        ("command line", {k: v for k, v in (options or {}).items() if v is not None}),
        ("environment", from_variables),
        (file_path.name, from_file),
    )
    origins = []
    for spec in fields(Settings):
        source, raw = next(
            ((name, layer[spec.name]) for name, layer in layers if spec.name in layer),
            ("default", spec.default),
        )
        value = _checked(spec, raw, source)
        origins.append(Origin(spec.name, value, source, spec.metadata["meaning"]))
    # Each value was checked to be of its setting's type.
    settings = Settings(**{origin.name: origin.value for origin in origins})  # type: ignore[arg-type]
    _check_zone(settings.timezone)
    if settings.public_url and not _is_site(settings.public_url):
        raise SettingsError("Setting public_url must look like https://gateway.example.")
    _check_proxies(settings)
    _check_hosts(settings.internal_hosts)
    return settings, tuple(origins)


def _read_file(path: Path, *, required: bool) -> dict[str, object]:
    if not path.exists():
        if required:
            raise SettingsError(f"TOLLWAY_CONFIG names {path}, which does not exist.")
        return {}
    import tomllib

    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}.") from None
    for name in values:
        _check_known(name, f"{path} sets {name}")
    return values


def _read_variables() -> dict[str, object]:
    values: dict[str, object] = {}
    for variable, value in os.environ.items():
        if variable.startswith(_VARIABLE) and not variable.startswith(_NOT_SETTINGS):
            name = variable.removeprefix(_VARIABLE).lower()
            _check_known(name, f"The environment sets {variable}")
            values[name] = value
    return values


def _check_known(name: str, subject: str) -> None:
    known = [spec.name for spec in fields(Settings)]
    if name in known:
        return
    close = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {close[0]}?" if close else " `tollway settings` lists them all."
    raise SettingsError(f"{subject}, which is not a setting.{hint}")


def _checked(spec: Field[Any], raw: object, source: str) -> str | int:
    where, metadata = f"Setting {spec.name} (from {source})", spec.metadata
    if spec.type in (int, "int"):
        return _whole_number(raw, metadata["least"], metadata["most"], where)
    if not isinstance(raw, str):
        raise SettingsError(f"{where} must be a text, in quotation marks.")
    if not (raw or spec.default == ""):
        raise SettingsError(f"{where} must not be empty.")
    if metadata["choices"] and raw not in metadata["choices"]:
        raise SettingsError(f"{where} must be one of {', '.join(metadata['choices'])}.")
    return raw


def _whole_number(raw: object, least: int, most: int, where: str) -> int:
    try:
        number = int(raw) if isinstance(raw, (str, int)) and not isinstance(raw, bool) else None
    except ValueError:
        number = None
    if number is None or not least <= number <= most:
        raise SettingsError(f"{where} must be a whole number from {least:,} to {most:,}.")
    return number


def _check_zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise SettingsError(f"Setting timezone: {name} is not a known time zone.") from None


def _is_site(url: str) -> bool:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - reading it checks it
    except ValueError:
        return False
    # Checked as written: links append to it, and cookies depend on its scheme.
    is_address = url.startswith(("http://", "https://")) and parts.hostname
    is_plain = "@" not in parts.netloc and not parts.netloc.endswith(":")
    # Pages have fixed paths, so the gateway does not work below a path prefix.
    is_whole = parts.path in ("", "/") and not any(sign in "?#" or sign.isspace() for sign in url)
    return bool(is_address) and is_plain and is_whole


def _check_proxies(settings: Settings) -> None:
    try:
        settings.proxies  # noqa: B018 - reading it checks it
    except ValueError as error:
        raise SettingsError(
            f"Setting trusted_proxies needs addresses or networks like 10.0.0.0/8: {error}."
        ) from None


def _check_hosts(hosts: list[str]) -> None:
    """What has a scheme, a port or a path is no host: it would never be that of a webhook."""
    for host in hosts:
        name = host.strip()
        if name and not (_HOST.fullmatch(name) or _is_ip_address(name)):
            raise SettingsError(
                f"Setting webhook_internal_hosts needs hosts like hooks.internal or 10.0.0.5, "
                f"separated by commas, and {name} is none."
            )


def _is_ip_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
