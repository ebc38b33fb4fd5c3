"""Record and replay: what an execution drew, what it was added to, and what a neighbour changes.

Users come in by :func:`dpassay.check`; nothing here is a public name.
"""

__all__: list[str] = []
