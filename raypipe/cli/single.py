"""Verbs of one stage; each is a recipe of that stage over a workspace."""

import typer


def register(app: typer.Typer) -> None:
    """Add the verbs."""
