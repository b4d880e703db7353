from json_files import write

from raypipe.models.folder.modules import ModelFiles


def test_what_modules_json_names(tmp_path):
    assert ModelFiles(tmp_path).modules == [] and not ModelFiles(tmp_path).is_sentence_transformer
    listed = [{"type": "a.b.Transformer", "path": "0_T"}, 7, {"type": "Pooling"}, {}]
    write(tmp_path / "modules.json", listed)
    assert ModelFiles(tmp_path).modules == [("Transformer", "0_T"), ("Pooling", ""), ("", "")]
    assert ModelFiles(tmp_path).is_sentence_transformer
    assert ModelFiles(tmp_path).transformer.folder == tmp_path  # its folder is not there
    (tmp_path / "0_T").mkdir()
    assert ModelFiles(tmp_path).transformer.folder == tmp_path / "0_T"
    for path, kind in (("", "Transformer"), ("1_T/x", "Transformer"), ("0_T", "Other")):
        write(tmp_path / "modules.json", [{"type": kind, "path": path}])
        assert ModelFiles(tmp_path).transformer.folder == tmp_path
        assert not ModelFiles(tmp_path).is_sentence_transformer
    write(tmp_path / "modules.json", {"type": "Transformer"})
    assert ModelFiles(tmp_path).modules == []
