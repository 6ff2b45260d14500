"""When Whisper's words are said, from the times of its tokens. Nothing here imports ComfyUI or transformers.

Whisper gives a time for each token: that of its end. Some tokens are parts of a character, so tokens are joined until
they decode to whole characters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from torch import Tensor, nn

from ...omnivoice.productions.timings import TimedWord, words_of

FRAMES = 1_500  # of Whisper's encoder
_INCOMPLETE = "\N{REPLACEMENT CHARACTER}"

Token = tuple[str, float, float]  # its text, start and end in seconds


def can_time(whisper: nn.Module) -> bool:
    """Whether the model knows which of its attention heads follow the words."""
    return bool(getattr(whisper.generation_config, "alignment_heads", None))


def working_bytes(whisper: nn.Module) -> int:
    """Return the size of the attention that is kept until all words of a window are known."""
    config = whisper.config
    return 4 * config.decoder_layers * config.decoder_attention_heads * config.max_target_positions * FRAMES


def tokens_of(ids: Tensor, ends: Tensor, decode: Callable[..., str]) -> Iterator[Token]:
    """Yield the text and times of the tokens [L], without special ones. ends: [L], in seconds."""
    waiting, start = list[int](), 0.0
    for token, end in zip(ids.tolist(), ends.tolist()):
        waiting.append(token)
        text = decode(waiting, skip_special_tokens=True)
        if not text.endswith(_INCOMPLETE):
            if text:
                yield text, start, end
            waiting, start = [], end


def timed_words(tokens: Iterable[Token], offset: float) -> list[TimedWord]:
    """Return the words, with their punctuation, and their times in the recording. offset: seconds.

    The characters of a token share its time evenly.
    """
    places = [
        (char, start + (end - start) * i / len(text), start + (end - start) * (i + 1) / len(text))
        for text, start, end in tokens
        for i, char in enumerate(text)
    ]
    whole, words, place = "".join(char for char, _, _ in places), list[TimedWord](), 0
    for word in words_of(whole):
        first = whole.index(word, place)
        place = first + len(word)
        words.append(TimedWord(word, offset + places[first][1], offset + places[place - 1][2]))
    return words
