"""What `import raypipe` and each call load, each in a process of its own; the names it gives."""

import ast
from pathlib import Path

import pytest
from loaded_packages import HEAVY, loaded_after

import raypipe

ROOT = Path(raypipe.__file__).parent


NAMES = "run encode score search fuse rerank evaluate compare read_run write_run open_index"


def test_importing_it_loads_nothing():
    packages = [*HEAVY, "numpy", "pyarrow", "pydantic", "yaml", "raypipe.api", "raypipe.errors"]
    assert loaded_after("import raypipe", *packages) == []


def test_runs_are_fused_reranked_measured_and_written_without_torch_or_ray(tmp_path):
    code = f"""
from raypipe import *
assert callable(search)
a, b = {{"q": {{"x": 2.0, "y": 1.0}}}}, {{"q": {{"y": 2.0, "z": 1.0}}}}
fused = fuse([a, b])
ranked = rerank(fused, scores={{"q": {{"x": 0, "y": 1, "z": 2}}}})
write_run(ranked, {str(tmp_path / "a.trec")!r})
evaluate(read_run({str(tmp_path / "a.trec")!r}), {{"q": {{"y": 1}}}})
compare({{"a": a, "b": b}}, {{"q": {{"y": 1}}}})
"""
    assert loaded_after(code, *HEAVY) == []


@pytest.mark.slow
def test_a_model_is_used_without_ray(tiny_model, tiny_mono):
    code = f"""
import raypipe
dense = raypipe.search(["a zebra"], ["the lease", "a rank"], {str(tiny_model)!r})
raypipe.rerank(dense, ["a zebra"], ["the lease", "a rank"], {str(tiny_mono)!r})
"""
    assert loaded_after(code, "ray", "jnius", "torch") == ["torch"]


def test_the_names_of_the_api_are_given_and_no_other():
    assert sorted(NAMES.split()) == raypipe.__all__
    assert set(raypipe.__all__) <= set(dir(raypipe))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        raypipe.nothing  # noqa: B018


def test_type_checkers_see_every_name():
    tree = ast.parse((ROOT / "__init__.py").read_text())
    (checked,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = [alias.name for node in checked.body for alias in node.names]
    assert sorted(seen) == raypipe.__all__
    for node in checked.body:
        module = __import__(node.module, fromlist=["x"])
        for alias in node.names:
            assert getattr(module, alias.name) is getattr(raypipe, alias.name)
    assert (ROOT / "py.typed").read_bytes() == b""


def test_no_module_takes_the_place_of_a_name():
    """Were there a folder raypipe/search, importing it would hide the function."""
    here = {path.stem for path in ROOT.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert not here & set(raypipe.__all__)
