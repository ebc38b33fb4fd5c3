"""What is asked of a table: blocks of queries, workloads of blocks, and queries as terms."""

__all__: list[str] = []
