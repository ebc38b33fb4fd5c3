"""Record and replay: what an execution drew, what it was added to, and what a neighbour changes."""
