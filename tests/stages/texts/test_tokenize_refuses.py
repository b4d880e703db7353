"""The tokenize stage refuses a tokenizer whose inputs cannot be sliced from pieces."""

import pyarrow as pa
import pytest
import tiny
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from raypipe import schema
from raypipe.errors import InputError
from raypipe.models.folder.loading import resolve_model
from raypipe.stages.stage import Site
from raypipe.stages.texts.tokenize import TokenizeStage
from raypipe.storage.ledger import Ledger
from raypipe.storage.payloads.tables import write_table
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.stored import Stored


@pytest.fixture
def passages(tmp_path):
    ledger = Ledger(PosixStorage(tmp_path), "passages", StageSpec("x", 1), [Shard(0, 0, 3)])
    file = ledger.storage.scratch() / "payload"
    table = pa.table([["a", "b", "c"], ["zebra run", "", "a lease"]], schema=schema.PASSAGES)
    write_table(file, schema.PASSAGES, [table])
    ledger.commit(ledger.shards[0], file, {"rows": 3})
    return Stored(ledger.storage, ledger.publish())


@pytest.mark.parametrize(("template", "fits"), [("[CLS] $A [SEP]", True), ("[CLS] $A", False)])
def test_a_tokenizer_that_builds_other_inputs_is_refused(tmp_path, passages, template, fits):
    folder = tiny.make_tiny_bert(tmp_path / "model")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = TemplateProcessing(single=template, special_tokens=ids)
    tokenizer.save(str(folder / "tokenizer.json"))
    stage = TokenizeStage(passages, schema.PASSAGES, resolve_model(str(folder)))
    site = Site(passages.storage.scratch())
    if fits:
        stage.open(site)
        assert stage.run(Shard(0, 0, 3), (), lambda rows: None).facts["rows"] == 3
    else:
        with pytest.raises(InputError, match="zebra run"):
            stage.open(site)
