"""The Jinja environment of the pages: its settings, and the filters that templates use."""

import re
from datetime import datetime
from zoneinfo import ZoneInfo

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from tollway.operations.catalogue import title_of

_COMMAND = re.compile("`([^`]+)`")
_IN_REASON = re.compile("(?<=[A-Z])_(?=[A-Z])")


def page_templates(zone: ZoneInfo) -> Environment:
    templates = Environment(
        loader=PackageLoader("tollway.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals.update(zone=zone.key, title_of=title_of)
    templates.filters["commands"] = _with_commands
    templates.filters["between_words"] = _between_words
    templates.filters["shown"] = lambda at_s: datetime.fromtimestamp(at_s, zone).strftime(
        "%Y-%m-%d %H:%M"
    )
    return templates


def _with_commands(text: str) -> Markup:
    """A text with the commands between backticks shown as code."""
    return Markup(_COMMAND.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped


def _between_words(text: str) -> Markup:
    """A text whose reasons, such as PERMISSION_MISSING, may wrap after an underscore."""
    return Markup(_IN_REASON.sub("_<wbr>", str(escape(text))))  # noqa: S704 - escaped
