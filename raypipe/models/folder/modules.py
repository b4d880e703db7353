"""The modules of a folder of sentence-transformers, and where each of them lies.

They are in modules.json, one after the other, or in the two routes of a Router: a sparse encoder's
documents are computed by a model, and its queries by a table with a weight for each word piece.
"""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from raypipe.errors import InputError
from raypipe.models.family import family_of
from raypipe.models.folder.files import part_of, read_json, read_object, tensor_shapes
from raypipe.models.folder.settings import AnyConventions, Conventions, FileName, schema_problems
from raypipe.models.tensors import Config
from raypipe.storage.records import hash_once

SETTINGS = "config_sentence_transformers.json"
LATE = ("MultiVectorEncoder", "ColBERT")
"""Models of late interaction, as sentence-transformers and PyLate name them."""
TRANSFORMERS = ("Transformer", "MLMTransformer")
"""The first module; a sparse encoder's has the masked-word head."""
ROUTER = "Router"
QUERY_TABLE = "SparseStaticEmbedding"
"""The module of the route query."""
ROUTES = "router_config.json"
TABLE = "model.safetensors"
"""The file of a table; its one tensor is weight [V]."""


class Module(BaseModel):
    """An entry of modules.json; other keys of it are not read."""

    path: Annotated[FileName, Field(description="a folder's name")] = ""


def is_sentence_transformer(folder: Path) -> bool:
    """Whether modules.json has pooling or a Router; a cross-encoder's has only a Transformer."""
    modules = _listed(folder)
    return len(modules) > 1 or [name for name, _ in modules] == [ROUTER]


def modules_of(folder: Path) -> list[tuple[str, str]]:
    """(class, folder) of each module, in order; of a Router those of documents; empty if none.

    Raises:
        InputError: not JSON, or the path of a module is no name.
    """
    return routes_of(folder).get("document") or _listed(folder)


def _listed(folder: Path) -> list[tuple[str, str]]:
    file = folder / "modules.json"
    body = read_json(file)
    modules = [each for each in body if isinstance(each, dict)] if isinstance(body, list) else []
    for module in modules:
        problems = schema_problems(Module, module, missing="save the model anew")
        if problems:
            raise InputError([f"{file}: {problem}" for problem in problems])
    return [(str(m.get("type", "")).rpartition(".")[2], m.get("path", "")) for m in modules]


def routes_of(folder: Path) -> dict[str, list[tuple[str, str]]]:
    """(class, folder) of each module of a Router's routes, by route; empty if there is no Router.

    Raises:
        InputError: not JSON, or the folder of a module is no name.
    """
    if _listed(folder) != [(ROUTER, "")]:
        return {}
    file = folder / ROUTES
    body = read_object(file)
    types = part_of(body, "types", file)
    routes = {
        route: [(str(types.get(str(place))).rpartition(".")[2], str(place)) for place in places]
        for route, places in part_of(body, "structure", file).items()
        if isinstance(places, list)
    }
    for place in (place for modules in routes.values() for _, place in modules):
        if schema_problems(Module, {"path": place}, missing=""):
            raise InputError(f"{file}: expected the names of folders, found {place[:60]!r}")
    return routes


def transformer_folder(folder: Path) -> Path:
    """The folder of the transformer's own files: the folder itself, or the one in modules.json."""
    modules = modules_of(folder)
    place = modules[0][1] if modules and modules[0][0] in TRANSFORMERS else ""
    inside = folder / place
    return inside if place and Path(place).name == place and inside.is_dir() else folder


def table_of(folder: Path, own: AnyConventions | None, config: Config | None) -> str | None:
    """SHA-256 of the table that an encoder's settings name; None if they name none, or if they or
    config.json could not be read.

    Raises:
        InputError: it is not there, or has not one weight for each word piece.
    """
    if config is None or not isinstance(own, Conventions) or own.query_table is None:
        return None
    place = folder / own.query_table
    inside = own.query_table not in ("", "..") and Path(own.query_table).name == own.query_table
    if not inside or not place.is_dir():
        raise InputError(
            f"{folder}: query_table: expected a folder in it, found {own.query_table!r}"
        )
    file = place / TABLE
    if not file.exists():
        raise InputError(
            f"{place}: expected {TABLE}, found none; save the model anew: "
            f"SparseEncoder({str(folder)!r}).save_pretrained(DIR) writes it"
        )
    shapes = tensor_shapes(file)
    expected = {"weight": (family_of(config).files.as_bert(config)["vocab_size"],)}
    if shapes != expected:
        raise InputError(
            f"{file}: expected the tensors {expected}, a weight for each word piece of the "
            f"vocabulary, found {shapes}; it belongs to another model"
        )
    return hash_once(file)
