from raypipe.config.fields import Section
from raypipe.config.keys import texts_of


class Above(Section):
    """A section."""

    one: int
    """The first,
    on two lines."""
    two: int


class Below(Above):
    """A section with the fields of another."""

    two: int
    """Told here."""


def test_a_field_has_the_docstring_below_it_and_a_section_those_that_it_inherits():
    assert texts_of(Above) == {"one": "The first, on two lines."}
    assert texts_of(Below) == {"one": "The first, on two lines.", "two": "Told here."}
