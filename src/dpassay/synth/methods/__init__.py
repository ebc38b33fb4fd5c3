"""The synthesizers, one module each, and what several of them share."""

__all__: list[str] = []
