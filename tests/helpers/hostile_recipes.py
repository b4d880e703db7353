"""Recipes that were written to harm whoever reads them."""

MERGES = "a: &a {x: 1}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join(9 * ['*' + before])}]}}\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)
"""Less than 500 bytes, which merge keys unfold to 9 ** 9 pairs."""
