"""Text: from what the user typed to token ids and frame counts.

It holds cleaning, non-verbal tags, the tokenizer, the prompt layout, the duration estimate, chunking, languages and
voice design. It takes strings and returns strings and numbers, and uses no tensors, weights or ComfyUI. Importing the
package imports none of its modules.
"""
