"""Sound as tensors: resampling, silence, loudness, joins, the reference's preparation and the output's finish.

Everything takes and gives float32 tensors [C, N]; nothing here reads files or knows a model.
"""
