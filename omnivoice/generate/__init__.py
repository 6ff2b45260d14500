"""From checked requests to codes: plan, schedule, noise, pack, step. Pure Python and tensors; no files."""
