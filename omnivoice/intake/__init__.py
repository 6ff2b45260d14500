"""Everything that comes from outside the engine: limits, paths, files, downloads, text, tensors, voices, audio.

No other room opens, reads, writes or renames files. What passes is checked and plain; anything else is refused with an
exception of `errors`. Nothing here knows a model. Import the module you need: this file exports nothing.
"""
