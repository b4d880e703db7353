"""Prints results to stdout."""

import json


def print_result(result: object, text: str, *, as_json: bool) -> None:
    """One JSON object, or text, on stdout."""
    print(json.dumps(result) if as_json else text, flush=True)
