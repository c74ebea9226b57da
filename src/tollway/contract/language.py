"""The two languages of messages, and how a caller asks for one.

A `Phrase` is written in both. A `Sentence` is an English template with its values, formatted only
once its reader is known: API answers, logs and the terminal show it in English, pages in the
reader's language. `sentences.toml` has every template in Chinese; `page_sentences.toml` has what
pages say in English where a template names a command. A test fails on entries that are missing,
unused, or have other values.
"""

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple, Self

import msgspec

_AFTER_CHINESE = re.compile(r"(?<=[一-鿿])\{(\w+)\}")
_LATIN = re.compile(r"[0-9A-Za-z]")


class Phrase(NamedTuple):
    """One text in both languages."""

    en: str
    zh: str

    def said(self, language: str) -> str:
        """The text in one language, unformatted: that of an installed package may have braces."""
        return self.zh if language == "zh" else self.en

    def fill(self, language: str, values: Mapping[str, object]) -> str:
        """The text in one language, filled in with values, each translated if it can be."""
        template = self.said(language)
        chosen = {name: _in_language(value, language) for name, value in values.items()}
        if language == "zh":
            # Chinese typography has a space between Chinese and Latin letters.
            for name in _AFTER_CHINESE.findall(template):
                if isinstance(values[name], Phrase) and _LATIN.match(str(chosen[name])):
                    chosen[name] = f" {chosen[name]}"
        return template.format_map(chosen)


def in_english(text: str | Phrase) -> str:
    """The English of a text that may have both, for what is English only: the terminal, OpenAPI."""
    return text.en if isinstance(text, Phrase) else text


class Sentence(msgspec.Struct, frozen=True):
    """A template and its values. It can be stored or sent to another process."""

    template: str
    values: "dict[str, Value]" = {}

    def said(self, language: str) -> str:
        """What a page says to a reader of this language."""
        template = page_sentences(language).get(self.template, self.template)
        # Without values it is not a template: a text of an installed package may have braces.
        return Phrase(template, template).fill(language, self.values) if self.values else template

    def __str__(self) -> str:
        return self.said(_AS_WRITTEN)


Value = str | int | float | Phrase | Sentence | None


class SentenceError(Exception):
    """An error with one sentence for a person, raised where the language is not known."""

    def __init__(self, template: str | Phrase = "", /, **values: Value) -> None:
        if isinstance(template, Phrase):
            # The catalogue lacks the sentences of installed packages.
            template, values = "{text}", {"text": template}
        super().__init__(template)
        self.sentence = Sentence(template, values)

    @classmethod
    def of(cls, sentence: Sentence) -> Self:
        """The same sentence as an error of this kind."""
        return cls(sentence.template, **sentence.values)

    def __str__(self) -> str:
        return str(self.sentence)


# The language of API answers, logs and the terminal, which is English.
_AS_WRITTEN = ""
_PAGE_SENTENCES = {"zh": "sentences.toml", "en": "page_sentences.toml"}


@cache
def page_sentences(language: str) -> dict[str, str]:
    """What pages say instead of a template: in Chinese for all templates, in English for those that
    name a command."""
    if language not in _PAGE_SENTENCES:
        return {}
    # Imported here, because only pages ask for these sentences.
    import tomllib  # noqa: PLC0415

    path = files("tollway.contract").joinpath(_PAGE_SENTENCES[language])
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _in_language(value: object, language: str) -> object:
    return value.said(language) if isinstance(value, Phrase | Sentence) else value


# Browsers send at most a dozen languages; the rest of a longer header is ignored.
_ACCEPT_LANGUAGE_MAX = 256


def preferred_language(accept_language: str) -> str:
    """`zh` when the Accept-Language header prefers Chinese over English, `en` otherwise."""
    return _preferred(accept_language[:_ACCEPT_LANGUAGE_MAX])


@lru_cache(maxsize=256)
def _preferred(accept_language: str) -> str:
    best = {"en": 0.0, "zh": 0.0}
    for part in accept_language.lower().split(","):
        tag, _, parameter = part.strip().partition(";")
        # Java and PHP write a locale with an underscore.
        language = tag.strip().replace("_", "-").partition("-")[0]
        if language in best:
            best[language] = max(best[language], weight_of(parameter))
    return "zh" if best["zh"] > best["en"] else "en"


def weight_of(parameter: str) -> float:
    """The weight of one entry of an Accept header, from what follows its semicolon."""
    name, _, value = parameter.strip().partition("=")
    if name.strip() != "q":
        return 1.0
    try:
        weight = float(value)
    except ValueError:
        return 0.0
    # A weight outside 0..1 (or NaN, which compares false) is no preference at all.
    return weight if 0.0 <= weight <= 1.0 else 0.0
