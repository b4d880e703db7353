"""The schema of a Kubernetes resource, made strict: the API server drops keys that it lacks."""

import copy
from typing import Any

import yaml


def crd_schema(path, version="v1"):
    """(kind, JSON schema) of a file that defines a custom resource."""
    body = yaml.safe_load(path.read_text())["spec"]
    (found,) = [each for each in body["versions"] if each["name"] == version]
    return body["names"]["kind"], strict(found["schema"]["openAPIV3Schema"])


def strict(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema, in which an object with properties has no others, at any depth."""
    schema = copy.deepcopy(schema)
    places = [schema]
    while places:
        place = places.pop()
        inner = place.get("properties", {})
        places += inner.values()
        places += [each for key in ("items", "additionalProperties") if (each := place.get(key))]
        open_to_all = place.get("x-kubernetes-preserve-unknown-fields")
        if inner and not open_to_all and "additionalProperties" not in place:
            place["additionalProperties"] = False
    return schema
