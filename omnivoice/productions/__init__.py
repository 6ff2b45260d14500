"""Productions: what is made of many pieces of speech. They use the engine; nothing in the engine uses them.

They need only functions that plan and speak requests, so the command line and ComfyUI's nodes share them.
"""
