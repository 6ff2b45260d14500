"""Text: from what the user typed to token ids and audio frames.

Cleaning, non-verbal tags, tokenizer, prompt layout, duration estimate, chunking, languages and voice design.
Strings in, strings and numbers out; nothing here knows tensors, weights or ComfyUI, and importing this package
imports nothing: import the module that does the job.
"""
