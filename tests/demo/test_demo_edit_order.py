"""The loss test on the demo voice, which was trained with masks in the order of decoding."""

from __future__ import annotations

import torch

from omnivoice.productions.edit_order import order_loss
from omnivoice.train.clips import Clip
from tests.demo.demo_fixtures import clips, engine


def test_only_codebook_by_codebook_suits_the_demo_voice() -> None:
    mine = [Clip(one.words, one.codes.to(torch.int16), one.text, "en") for one in clips() if one.use != "train"]
    found = order_loss(engine(), mine)
    assert found.clips == 24 and found.spans >= 40
    assert found.order == "codebooks"
    assert 1 < found.first_only < 2 and 5 < found.fully_shown < 8
