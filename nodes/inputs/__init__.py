"""From what nodes receive to what the engine takes: one module for Synthesize and one for training."""
