"""Comparisons with another program: upstream's package, and the same engine inside a real ComfyUI."""
