"""Text normalisation: numbers, symbols and abbreviations become the words that people say for them.

It is opt-in: nothing here runs unless it is asked to. English and Chinese have rules of their own; other languages use
the package num2words when it is installed. Tags, pauses, pronunciations and other control spans are never changed.
"""

from .apply import normalise as normalise
from .protected import protected_spans as protected_spans
from .result import Change as Change
from .result import Normalised as Normalised
from .result import Replacement as Replacement
from .result import changes_note as changes_note
