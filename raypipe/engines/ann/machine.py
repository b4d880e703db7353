"""What faiss's numbers depend on besides the input: its version and the instructions it uses."""

from importlib.metadata import version

PACKAGE = "faiss-cpu"


def faiss_version() -> str:
    """The version of faiss that is installed; faiss itself is not loaded."""
    return version(PACKAGE)


def faiss_class() -> str:
    """The numerics class of faiss here, `faiss 1.15.1 AVX512`: equal bytes are promised within it.

    Another set of instructions sums distances in another order, so a graph may have other links.
    """
    import faiss

    return f"faiss {faiss.__version__} {faiss.SIMDConfig.get_level_name()}"


def one_thread() -> None:
    """Let faiss use one thread when this thread calls it: results then have one order of sums."""
    import faiss

    faiss.omp_set_num_threads(1)
