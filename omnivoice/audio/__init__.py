"""Audio as tensors: resampling, silence, levels, joins, preparing a reference and finishing the output.

Functions take and return float32 tensors [C, N]. Nothing here reads files or knows a model.
"""
