"""Verbs about what is stored: status, verify, gc, export, evaluate, doctor."""

import typer


def register(app: typer.Typer) -> None:
    """Add the verbs."""
