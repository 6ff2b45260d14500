"""Training: clips, batches, adapters and the loop. Knows text, language model, codec and weights, and not how speech
is generated."""
