"""The tests mirror raypipe file by file; its folders are small and know each other one way."""

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
RAYPIPE = TESTS.parent / "raypipe"
MOST_MODULES = 13
"""Of a folder, beside its `__init__`."""
NOT_MIRRORED = {"benchmarks", "faults", "fuzz", "gpu", "helpers", "mutation"}
TESTED_ELSEWHERE = {
    "api/given/scores.py": "api/test_reranking.py",
    "api/given/tables.py": "api/given/test_runs.py",
    "api/given/texts.py": "api/test_encoding.py",
    "api/opened/closing.py": "api/opened/test_ray.py",
    "api/opened/held.py": "api/opened/test_index.py",
    "api/opened/held_search.py": "api/opened/test_index_bm25.py",
    "api/scoring_on_ray.py": "api/opened/test_ray.py",
    "cli/given.py": "cli/test_ties.py",
    "cli/output.py": "cli/verbs/test_compare.py",
    "cli/verbs/quickstart.py": "test_quickstart.py",
    "cli/verbs/single.py": "driver/verbs/test_single_stage_commands.py",
    "cli/verbs/upkeep.py": "driver/upkeep/test_export_opened_by_others.py",
    "config/pipeline/draft.py": "config/pipeline/test_rules.py",
    "config/pipeline/kinds/__init__.py": "config/pipeline/test_rules.py",
    "config/pipeline/kinds/aggregate.py": "config/pipeline/kinds/test_score.py",
    "config/pipeline/kinds/fuse.py": "config/pipeline/kinds/test_score.py",
    "config/pipeline/kinds/passages.py": "config/pipeline/kinds/test_documents.py",
    "config/pipeline/kinds/read.py": "config/pipeline/test_rules.py",
    "config/pipeline/kinds/search.py": "config/pipeline/test_rules.py",
    "config/pipeline/parts.py": "config/test_packaged.py",
    "config/pipeline/references.py": "config/pipeline/test_rules.py",
    "config/training/load.py": "config/training/test_rules.py",
    "data/columns.py": "data/test_qrels.py",
    "data/files/rows.py": "data/test_queries.py",
    "driver/analysis/by_query/finding.py": "driver/analysis/by_query/test_show.py",
    "driver/analysis/by_query/grouped.py": "driver/analysis/by_query/test_queries.py",
    "driver/analysis/by_query/query_page.py": "driver/analysis/by_query/test_show.py",
    "driver/analysis/by_query/reordered.py": "driver/analysis/by_query/test_movers.py",
    "driver/analysis/by_query/ties.py": "driver/analysis/by_query/test_queries.py",
    "driver/analysis/by_query/unjudged.py": "driver/analysis/by_query/test_queries.py",
    "driver/analysis/grid/cells.py": "driver/analysis/grid/test_tradeoff.py",
    "driver/analysis/grid/filled.py": "driver/analysis/grid/test_filling.py",
    "driver/analysis/lowered.py": "driver/audit/test_report_of_a_pipeline.py",
    "driver/analysis/making.py": "driver/analysis/test_report.py",
    "driver/analysis/pages/chain.py": "driver/analysis/test_report.py",
    "driver/analysis/pages/common.py": "driver/analysis/pages/test_beside.py",
    "driver/analysis/pages/differing.py": "driver/analysis/pages/test_beside.py",
    "driver/analysis/pages/larger.py": "driver/analysis/pages/test_beside.py",
    "driver/analysis/pages/settings.py": "driver/analysis/test_report.py",
    "driver/analysis/ranked.py": "driver/analysis/test_finished.py",
    "driver/audit/stores.py": "driver/audit/test_report_of_a_pipeline.py",
    "driver/audit/told.py": "driver/audit/test_report_of_a_pipeline.py",
    "driver/forecast/foreseen.py": "driver/forecast/test_planning.py",
    "driver/forecast/making.py": "driver/forecast/test_planning.py",
    "driver/forecast/run.py": "driver/upkeep/test_status.py",
    "driver/generations/accepting.py": "cli/verbs/test_reindex.py",
    "driver/models/fitting.py": "driver/models/test_opened.py",
    "driver/recipe/kinds/encode.py": "driver/test_pipeline_inputs_seen.py",
    "driver/recipe/kinds/fuse.py": "driver/test_pipeline_settings.py",
    "driver/recipe/kinds/index.py": "driver/upkeep/test_export_opened_by_others.py",
    "driver/recipe/kinds/passages.py": "driver/recipe/kinds/test_documents.py",
    "driver/recipe/kinds/search.py": "driver/test_pipeline.py",
    "driver/recipe/stores.py": "driver/recipe/test_basis.py",
    "driver/recipe/walking.py": "driver/forecast/test_planning.py",
    "driver/recipe/watching.py": "driver/recipe/test_execute.py",
    "driver/referring.py": "driver/upkeep/test_gc_races.py",
    "driver/report/notes.py": "driver/report/test_measure.py",
    "driver/training/sets.py": "driver/training/test_train.py",
    "driver/upkeep/exported_runs.py": "driver/upkeep/test_export.py",
    "driver/upkeep/exported_tables.py": "driver/upkeep/test_export.py",
    "driver/upkeep/upstream.py": "driver/upkeep/test_export.py",
    "driver/verbs/true_scores.py": "driver/recipe/kinds/test_aggregate.py",
    "engines/ann/codes.py": "engines/ann/test_ivf_pq.py",
    "engines/ann/machine.py": "engines/ann/test_files.py",
    "engines/exact/blocks.py": "engines/exact/test_search.py",
    "engines/exact/first_pass.py": "stages/test_products.py",
    "engines/exact/memory.py": "engines/exact/test_search.py",
    "engines/exact/products.py": "stages/test_products.py",
    "engines/lucene/build.py": "engines/lucene/test_index.py",
    "evaluation/measured.py": "evaluation/test_measures.py",
    "evaluation/run_files/dictionaries.py": "evaluation/run_files/test_runs_of_others.py",
    "evaluation/run_files/fields.py": "evaluation/run_files/test_runs.py",
    "evaluation/run_files/refusals.py": "evaluation/run_files/test_lines_problems.py",
    "evaluation/run_files/separated.py": "evaluation/run_files/test_runs_of_others.py",
    "foreign.py": "data/test_queries.py",
    "models/bert/family.py": "models/test_family.py",
    "models/body.py": "models/test_family.py",
    "models/convert/describe_weights.py": "models/convert/test_describe.py",
    "models/convert/description.py": "models/convert/test_describe.py",
    "models/fixed/clock.py": "models/fixed/test_engine.py",
    "models/folder/model_folder.py": "models/folder/test_loading.py",
    "models/hub/linked.py": "models/hub/test_held.py",
    "models/placed.py": "models/test_encoder.py",
    "models/renamed/names.py": "models/renamed/test_files.py",
    "models/t5/body.py": "models/t5/test_family.py",
    "models/t5/module.py": "models/t5/test_family.py",
    "models/whole/body.py": "models/whole/test_family.py",
    "models/whole/files.py": "models/whole/test_family.py",
    "models/whole/module.py": "models/whole/test_family.py",
    "nested.py": "evaluation/run_files/test_runs_of_others.py",
    "ranking/by_id.py": "api/test_fusion.py",
    "ranking/by_key.py": "api/test_reranking.py",
    "stages/ann/hnsw.py": "stages/ann/test_search.py",
    "stages/ann/ivf_pq.py": "stages/ann/test_search.py",
    "stages/ann/opened.py": "stages/ann/test_search.py",
    "stages/ann/recall.py": "stages/ann/test_search.py",
    "stages/audit/again.py": "stages/audit/test_stage.py",
    "stages/embeddings.py": "stages/test_search.py",
    "stages/in_memory.py": "api/test_encoding.py",
    "stages/outlook/outlook.py": "stages/outlook/test_tables.py",
    "stages/outlook/runs.py": "driver/forecast/test_planning.py",
    "stages/scoring/requests.py": "stages/scoring/test_candidates.py",
    "stages/tune.py": "test_names.py",
    "storage/leases/state.py": "storage/leases/test_lease.py",
    "storage/root.py": "driver/test_workspace.py",
    "storage/storage.py": "storage/places/test_posix.py",
    "training/examples/sources.py": "driver/training/test_phases_documents.py",
    "training/model/trainee.py": "training/model/test_worker.py",
    "training/peers/card.py": "training/peers/test_adding.py",
    "vocabulary.py": "config/pipeline/test_load.py",
}
"""Module -> the test file that covers it, for modules that no test file is named after."""

MODULES = sorted(p for p in RAYPIPE.rglob("*.py") if p.name not in ("__init__.py", "__main__.py"))
FILES = sorted(
    path
    for path in TESTS.rglob("test_*.py")
    if path.parent != TESTS and path.relative_to(TESTS).parts[0] not in NOT_MIRRORED
)


def short(path):
    return path.relative_to(RAYPIPE).as_posix()


def module_of(test_file):
    """The module that a test file is named after: of its folder, the longest name that fits.

    A folder whose `__init__` does something is a module too.
    """
    name = test_file.stem.removeprefix("test_")
    folder = RAYPIPE / test_file.parent.relative_to(TESTS)
    named = {p.stem: p for p in folder.glob("*.py")}
    named |= {p.parent.name: p for p in folder.glob("*/__init__.py") if behaves(p)}
    fitting = [stem for stem in named if f"{name}_".startswith(f"{stem}_")]
    return named[max(fitting, key=len)] if fitting else None


def behaves(module):
    """Whether it defines a public function, or a class that has a method."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.parse(module.read_text()).body:
        if isinstance(node, functions) and not node.name.startswith("_"):
            return True
        if isinstance(node, ast.ClassDef) and any(isinstance(n, functions) for n in node.body):
            return True
    return False


def dotted(path):
    parts = path.relative_to(RAYPIPE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


BY_NAME = {dotted(path): path for path in RAYPIPE.rglob("*.py")}


@cache
def imported(path):
    """Files of raypipe that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in BY_NAME else node.module for name in whole.values()}
    return {BY_NAME[name] for name in found if name in BY_NAME} - {path}


@pytest.mark.parametrize("test_file", FILES, ids=lambda p: p.relative_to(TESTS).as_posix())
def test_a_test_file_is_named_after_a_module_of_the_folder_that_it_mirrors(test_file):
    folder = test_file.parent.relative_to(TESTS)
    assert (RAYPIPE / folder).is_dir(), f"raypipe has no folder {folder}"
    assert module_of(test_file) is not None, f"raypipe/{folder} has no module of this name"


def test_a_module_that_does_something_has_tests_of_its_name_or_is_listed():
    named = {short(module) for module in map(module_of, FILES) if module}
    named |= {p.name for p in RAYPIPE.glob("*.py") if (TESTS / f"test_{p.name}").exists()}
    packages = RAYPIPE.glob("*/**/__init__.py")
    without = {short(module) for module in (*MODULES, *packages) if behaves(module)} - named
    assert without - set(TESTED_ELSEWHERE) == set(), "neither tested by name nor listed"
    assert set(TESTED_ELSEWHERE) - without == set(), "listed, and tested by name or gone"
    assert list(TESTED_ELSEWHERE) == sorted(TESTED_ELSEWHERE)


@pytest.mark.parametrize(("module", "test_file"), TESTED_ELSEWHERE.items())
def test_a_listed_module_is_within_reach_of_the_file_that_covers_it(module, test_file):
    """It or a neighbour is imported there, or by what is; or the command line is run there."""
    file = TESTS / test_file
    above = [p / "conftest.py" for p in file.parents if TESTS in p.parents]
    reached, waiting = set(), [file, *(p for p in above if p.exists())]
    if any(word in file.read_text() for word in ("raypipe_cli", '"-m", "raypipe"')):
        waiting.append(RAYPIPE / "cli" / "main.py")
    while waiting:
        new = imported(waiting.pop()) - reached
        reached |= new
        waiting += new
    assert (RAYPIPE / module).parent in {path.parent for path in reached}


def test_folders_hold_so_many_modules_at_most():
    numbers = {}
    for module in MODULES:
        folder = module.parent.relative_to(RAYPIPE.parent).as_posix()
        numbers[folder] = numbers.get(folder, 0) + 1
    assert {folder: n for folder, n in numbers.items() if n > MOST_MODULES} == {}


def check_one_way(graph):
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' <- '.join(map(str, error.args[1]))}")


def test_files_import_each_other_one_way():
    check_one_way({short(path): set(map(short, imported(path))) for path in BY_NAME.values()})


def test_folders_of_one_folder_import_each_other_one_way():
    graph = {}
    for path in MODULES:
        here = path.relative_to(RAYPIPE).parts[:-1]
        for other in imported(path):
            there = other.relative_to(RAYPIPE).parts[:-1]
            # Deeper folders are parts of their room: raypipe/A/B is the room of raypipe/A/B/C.
            if len(here) > 1 and len(there) > 1 and here[:2] != there[:2]:
                graph.setdefault("/".join(here[:2]), set()).add("/".join(there[:2]))
    check_one_way(graph)
