"""What a table is: columns, their schema, the form of a table, and domains that are measured."""

__all__: list[str] = []
