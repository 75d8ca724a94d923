from signalbook.documents.modernise import modernise


def test_removed_model_aspects_are_replaced() -> None:  # F-56
    resource = {"singular": "file", "setdefaultversionsticky": False, "matchcase": True, "compatiblewith": "u"}
    model = {"groups": {"dirs": {"singular": "dir", "resources": {"files": resource}}}}
    modernised, repairs = modernise(model, source="m.json")
    assert modernised["groups"]["dirs"]["resources"]["files"] == {"singular": "file", "modelcompatiblewith": "u"}
    assert {repair.rule for repair in repairs} == {"F-56"}
    assert repairs[0].path == "/#groups.dirs.resources.files.compatiblewith"


def test_documents_called_format() -> None:
    """A Resource type ``format`` has its document where every Version has the name of its format."""
    model = {"groups": {"docs": {"singular": "doc", "resources": {"formats": {"singular": "format"}}}}}
    modernised, _ = modernise(model, source="m.json")
    assert modernised["groups"]["docs"]["resources"]["formats"]["singular"] == "docformat"
    book = {"docs": {"d": {"formats": {"pdf": {"format": "some text"}, "doc": {"versions": {"1": {}}}}}}}
    modernised, _ = modernise(book, source="b.json")
    assert modernised["docs"]["d"]["formats"]["pdf"]["docformat"] == "some text"
    sound = {"docs": {"d": {"formats": {"pdf": {"format": "PDF/1.7"}}}}}
    assert modernise(sound, source="b.json") == (sound, ())
