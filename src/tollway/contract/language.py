"""The two languages a message can be read in, and how a caller asks for one."""

from functools import lru_cache
from typing import NamedTuple


class Phrase(NamedTuple):
    """One text in both languages."""

    en: str
    zh: str

    def fill(self, language: str, values: dict[str, object]) -> str:
        """The text in one language; a value that is itself a phrase is put in that language."""
        template = self.zh if language == "zh" else self.en
        chosen = {
            name: value.fill(language, {}) if isinstance(value, Phrase) else value
            for name, value in values.items()
        }
        return template.format_map(chosen)


# Browsers send at most a dozen languages. Of a longer header only the beginning counts.
_ACCEPT_LANGUAGE_MAX = 256


def preferred_language(accept_language: str) -> str:
    """`zh` when the Accept-Language header prefers Chinese over English, `en` otherwise."""
    return _preferred(accept_language[:_ACCEPT_LANGUAGE_MAX])


@lru_cache(maxsize=256)
def _preferred(accept_language: str) -> str:
    best = {"en": 0.0, "zh": 0.0}
    for part in accept_language.lower().split(","):
        tag, _, parameter = part.strip().partition(";")
        language = tag.strip().partition("-")[0]
        if language in best:
            best[language] = max(best[language], _weight(parameter))
    return "zh" if best["zh"] > best["en"] else "en"


def _weight(parameter: str) -> float:
    name, _, value = parameter.strip().partition("=")
    if name.strip() != "q":
        return 1.0
    try:
        weight = float(value)
    except ValueError:
        return 0.0
    # A weight outside 0..1 (or NaN, which compares false) is no preference at all.
    return weight if 0.0 <= weight <= 1.0 else 0.0
