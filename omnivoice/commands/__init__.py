"""The subcommands of `python -m omnivoice`; each module adds its parsers and holds what they run."""
