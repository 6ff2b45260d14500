"""Translates widget values into the engine's requests: one module for speech and one for training."""
