"""`python -m raypipe`."""

from raypipe.cli import main

main()
