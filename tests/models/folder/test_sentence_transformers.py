from json_files import write

from raypipe.models.folder.modules import (
    is_sentence_transformer,
    modules_of,
    transformer_folder,
)


def test_what_modules_json_names(tmp_path):
    assert modules_of(tmp_path) == [] and not is_sentence_transformer(tmp_path)
    listed = [{"type": "a.b.Transformer", "path": "0_T"}, 7, {"type": "Pooling"}, {}]
    write(tmp_path / "modules.json", listed)
    assert modules_of(tmp_path) == [("Transformer", "0_T"), ("Pooling", ""), ("", "")]
    assert is_sentence_transformer(tmp_path)
    assert transformer_folder(tmp_path) == tmp_path  # its folder is not there
    (tmp_path / "0_T").mkdir()
    assert transformer_folder(tmp_path) == tmp_path / "0_T"
    for path, kind in (("", "Transformer"), ("../x", "Transformer"), ("0_T", "Other")):
        write(tmp_path / "modules.json", [{"type": kind, "path": path}])
        assert transformer_folder(tmp_path) == tmp_path
        assert not is_sentence_transformer(tmp_path)
    write(tmp_path / "modules.json", {"type": "Transformer"})
    assert modules_of(tmp_path) == []
