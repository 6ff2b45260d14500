"""What the demo voice can say: about 280 words in 20 sentence patterns, and the sentences drawn from them.

One table gives the training sentences, the held-out sentences, the list of known words and the JSGF grammar for the
speech recognizer that judges the result. A pattern is drawn with a weight that grows with the logarithm of its number
of sentences, so that small patterns do not fill the set with repetitions.
"""

from __future__ import annotations

import math
import random

SLOTS: dict[str, str] = {
    "name": "anna peter maria david susan robert laura thomas helen oliver rebecca daniel "
    "george julia victor nora simon amanda",
    "count": "two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty",
    "hour": "one two three four five six seven eight nine ten eleven twelve",
    "minute": "ten twenty thirty forty fifty",
    "digit": "zero one two three four five six seven eight nine",
    "color": "red blue green yellow white black brown orange purple silver",
    "thing": "apple book box flower house picture table window letter bottle basket ticket hammer candle blanket "
    "pencil carpet mirror button ladder umbrella spoon violin jacket hat",
    "things": "apples books boxes flowers houses pictures tables windows letters bottles baskets tickets hammers "
    "candles blankets pencils carpets mirrors buttons ladders "
    "umbrellas spoons violins jackets hats",
    "kind": "little old young big happy hungry quiet friendly clever lazy tired angry",
    "who": "dog cat horse monkey rabbit tiger chicken donkey teacher doctor farmer sailor pilot soldier lady "
    "dolphin turtle sheep dentist",
    "job": "teacher doctor farmer sailor pilot soldier singer painter dentist lawyer",
    "did": "walked jumped slept waited worked played danced rested laughed",
    "where": "behind near under across beside around",
    "place": "garden river mountain kitchen bridge forest station market village castle island hospital library "
    "office school harbor theater airport museum hotel",
    "part": "morning afternoon evening",
    "act": "open close bring find carry paint move take",
    "weather": "cold warm sunny rainy windy beautiful cloudy freezing",
    "when": "today tomorrow tonight",
    "day": "monday tuesday wednesday thursday friday saturday sunday",
    "month": "january february march april may june july august september october november december",
    "feel": "like want need remember",
    "kin": "brother sister mother father uncle cousin",
    "food": "bread butter cheese coffee water sugar pepper mustard soup rice salad chocolate lemon banana milk "
    "potatoes onions cake",
    "ride": "train bus boat airplane bicycle taxi",
    "side": "left right",
}
PATTERNS: tuple[str, ...] = (
    "<name> has <count> <color> <things>",
    "the <kind> <who> <did> <where> the <place>",
    "it is <hour> <minute> in the <part>",
    "please <act> the <color> <thing>",
    "my number is <digit> <digit> <digit> <digit>",
    "the weather is <weather> <when>",
    "good <part> <name> how are you",
    "hello <name> nice to meet you",
    "we will meet on <day> at <hour>",
    "i <feel> the <kind> <who>",
    "<name> and <name> <did> in the <place>",
    "i <feel> <count> <things> not <count>",
    "my <kin> is a very <kind> <job>",
    "we bought <food> and <food> from the <place>",
    "the <ride> to the <place> leaves at <hour>",
    "my <kin> has a birthday in <month>",
    "turn <side> <where> the <place>",
    "would you give me some <food> with <food>",
    "the <thing> is <where> the <color> <thing>",
    "<name> lost a <color> <thing> on <day>",
)
NAMES = frozenset(SLOTS["name"].split() + SLOTS["day"].split() + SLOTS["month"].split() + ["i"])


def words() -> list[str]:
    """Return all words in alphabetical order."""
    found = {word for words in SLOTS.values() for word in words.split()}
    found |= {word for pattern in PATTERNS for word in pattern.split() if not word.startswith("<")}
    return sorted(found)


def jsgf() -> str:
    """Return the grammar of complete sentences, for a speech recognizer."""
    rules = [f"<{slot}> = {' | '.join(values.split())};" for slot, values in SLOTS.items()]
    patterns = " |\n  ".join(PATTERNS)
    return "\n".join(["#JSGF V1.0;", "grammar demo;", *rules, f"public <sentence> =\n  {patterns};", ""])


def draw(pattern: str, rng: random.Random) -> str:
    """Return a random sentence of the pattern, in lower case."""
    pieces = [rng.choice(SLOTS[p[1:-1]].split()) if p.startswith("<") else p for p in pattern.split()]
    return " ".join(pieces)


def written(words: str) -> str:
    """Return the sentence as it is written: "Anna and I slept." for "anna and i slept"."""
    pieces = [word.capitalize() if word in NAMES else word for word in words.split()]
    return pieces[0].capitalize() + " " + " ".join(pieces[1:]) + "."


def size(pattern: str) -> int:
    """Return the number of sentences that the pattern has."""
    return math.prod(len(SLOTS[p[1:-1]].split()) for p in pattern.split() if p.startswith("<"))


def draw_sets(seed: int, train: int, held_out: int) -> dict[str, list[str]]:
    """Return sentences for "train" (with repetitions), "valid" and "test".

    "valid" and "test" have `held_out` different sentences each, spread evenly over the patterns. No sentence is in two
    of the sets.
    """
    rng = random.Random(seed)
    taken: set[str] = set()
    sets: dict[str, list[str]] = {}
    for name in ("test", "valid"):
        sets[name] = []
        while len(sets[name]) < held_out:
            sentence = draw(PATTERNS[len(sets[name]) % len(PATTERNS)], rng)
            if sentence not in taken:
                taken.add(sentence)
                sets[name].append(sentence)
    weights = [math.log2(size(pattern)) for pattern in PATTERNS]
    sets["train"] = []
    while len(sets["train"]) < train:
        sentence = draw(rng.choices(PATTERNS, weights)[0], rng)
        if sentence not in taken:
            sets["train"].append(sentence)
    return sets
