"""What source documents print, where the library does something else.

Each form is here so that a printed figure can be drawn again and held against the right one. Some
are unsafe or prove nothing, and say so; nothing in dpassay uses them.
"""

__all__: list[str] = []
