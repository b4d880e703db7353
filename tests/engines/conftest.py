"""What tests of engines share."""

from quick_java import quick_java  # noqa: F401  (for each test here)
