"""What a training's start lacks: refused, or drawn because the recipe says so."""

from raypipe.config import Training
from raypipe.models.folder.config_checks import initializer_range, tensor_shapes
from raypipe.models.folder.conventions import PairConventions
from raypipe.models.folder.model_folder import RANDOM, ModelFolder
from raypipe.training.job import conventions_of_training
from raypipe.training.model.pretraining_tensors import lacking, missing_at_start


def missing_problems(recipe: Training, start: ModelFolder) -> list[str]:
    """One problem for each tensor that the training needs, and neither has nor may draw."""
    missing = missing_tensors(recipe, start)
    if recipe.model.adapter is not None:
        return [
            f"model.start: {start.path}: the checkpoint lacks the tensor {name}, and a low-rank "
            "adapter cannot carry it; remove model.adapter to train every weight, or start from a "
            "checkpoint that has it"
            for name in missing
        ]
    if recipe.model.draw_missing:
        return []
    return [f"model.start: {start.path}: {lacking(name)}" for name in missing]


def drawn_lines(recipe: Training, start: ModelFolder) -> list[str]:
    """What is drawn before the first step, for the log and the table; a classifier goes without
    saying."""
    how = f"from N(0, {initializer_range(start.config()):g}) with seed {recipe.seed}"
    if start.weights_sha256 == RANDOM:
        return [f"start: every weight is drawn {how}"]
    missing = missing_tensors(recipe, start)
    return [f"start: the checkpoint lacks {', '.join(missing)}: drawn {how}"] if missing else []


def missing_tensors(recipe: Training, start: ModelFolder) -> list[str]:
    """The tensors, but for a reranker's classifier, that the training needs and its start lacks."""
    if start.weights_sha256 == RANDOM:
        return []
    shapes = tensor_shapes(start.folder / "model.safetensors")
    if recipe.masking is not None:
        next_sentence = recipe.masking.next_sentence
        return missing_at_start(shapes, start.config(), next_sentence=next_sentence)
    if not isinstance(conventions_of_training(recipe.model), PairConventions):
        return []
    files = start.family.files
    held = set(files.trained_names(list(shapes), head=True).values())
    poolers = [files.saved_name(name, head=True) for name in files.POOLER]
    return [name for name in poolers if name not in held]
