"""What a model says about text: its own tokens, the tags and language ids it knows, and whether text stays as written.

The engine makes it from the model's tokenizer and settings and passes it to everything that reads a text. The default
is the published model.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .own_tokens import OwnTokens
from .removed import Removed
from .tags import with_own_spelling


@dataclass(frozen=True)
class TextRules:
    """own: the model's own tokens. tags: names of tags that it knows in addition to OmniVoice's, without brackets.

    as_written: nothing is cleaned and no pause is read from the text; only tokens that control the prompt are removed.
    languages: ids of its own, which raise no warning.
    """

    own: OwnTokens = field(default_factory=OwnTokens)
    tags: tuple[str, ...] = ()
    as_written: bool = False
    languages: tuple[str, ...] = ()

    def shielded(self, text: str, removed: Removed | None = None) -> str:
        """Return `text` with a stand-in for each own token, see `own_tokens`, and tags as the model spells them."""
        spelled = text if self.as_written else with_own_spelling(text, self.tags)
        return self.own.shielded(spelled, removed)

    def is_mark(self, bracket: str) -> bool:
        """Whether a text in brackets is one of the model's own tokens or tags, in any case."""
        shielded = self.shielded(bracket)
        return (len(shielded) == 1 and shielded != bracket) or shielded[1:-1] in self.tags

    def restored(self, text: str) -> str:
        """Return a shielded text with its tokens spelled out."""
        return self.own.restored(text)

    def warnings(self, removed: Removed, source: str = "text") -> tuple[str, ...]:
        """Return what `removed` noted while a text was shielded, as warnings that spell its tokens."""
        return tuple(map(self.restored, removed.warnings(source)))


PUBLISHED = TextRules()
