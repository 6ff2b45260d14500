"""Productions: what is made of many pieces of speech. They use the engine; nothing in the engine uses them."""
