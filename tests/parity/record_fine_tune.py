"""What upstream makes of a fine-tune with tokens of its own: the ids of its prompts, and the tokens that it speaks.

Needs the environment of record.py, and a folder from the environment of this repository, since both packages are called
omnivoice:

    python -c "from pathlib import Path; from tests.fine_tune import make_fine_tune; make_fine_tune(Path('FOLDER'))"
    python tests/parity/record_fine_tune.py FOLDER       (writes tests/assets/fine_tune/recorded.safetensors)

No text has a language of its own: upstream takes an id that it does not know for no language.
"""

import json
import sys
from pathlib import Path

import torch
from omnivoice.models.omnivoice import OmniVoice
from safetensors.torch import save_file

RECORDED = Path(__file__).parent.parent / "assets" / "fine_tune" / "recorded.safetensors"
SEED, SECONDS, STEPS = 11, 1.6, 6
CASES = [
    ("[happy] Robert has <|dur_2|>seven <|pit_3|>silver bottles [whisper].", None),
    ("The <|dur_2|><|pit_3|>weather is[happy] beautiful<|dur_2|>", None),
    ("<|pit_3|> Robert has seven bottles.", "en"),
    ("My number is <|pit_3|>eight three<|dur_2|> four three.", "en"),
    ("Robert has seven [laughter] bottles.[happy]", "en"),
]


def main():
    torch.set_num_threads(1)
    model = OmniVoice.from_pretrained(sys.argv[1], device_map="cpu", dtype=torch.float32).eval()
    spoken, prompts = [], []
    speak, prepare = model._generate_iterative, model._prepare_inference_inputs
    model._generate_iterative = lambda task, config: spoken.append(speak(task, config)) or spoken[-1]
    model._prepare_inference_inputs = lambda *a, **k: prompts.append(prepare(*a, **k)) or prompts[-1]
    store = {}
    for number, (text, language) in enumerate(CASES):
        torch.manual_seed(SEED)
        model.generate(text=text, language=language, duration=SECONDS, num_step=STEPS)
        codes = spoken[-1][0].to(torch.int16).contiguous()
        ids = prompts[-1]["input_ids"][0, 0, : -codes.shape[1]]
        store |= {f"{number}/codes": codes, f"{number}/ids": ids.to(torch.int32).contiguous()}
    about = {"seed": SEED, "seconds": SECONDS, "steps": STEPS, "cases": CASES}
    RECORDED.parent.mkdir(exist_ok=True)
    save_file(store, RECORDED, metadata={"about": json.dumps(about)})


if __name__ == "__main__":
    main()
