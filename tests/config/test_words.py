from raypipe.config.words import did_you_mean, listed, shown


def test_values_are_shown_as_a_reader_names_them():
    values = [None, True, "ten", {}, [1], (), 7, 0.5]
    assert [shown(value) for value in values] == [
        "nothing", "true", "text 'ten'", "a mapping", "a list", "a list", "7", "0.5",
    ]  # fmt: skip
    assert shown("x" * 58) == f"text '{'x' * 58}'" and shown("x" * 59) == f"text '{'x' * 59}..."
    assert shown(10**5000) == "a number of thousands of digits"
    assert did_you_mean("bm52", ["bm25", "dense"]) == "; did you mean bm25?"
    assert did_you_mean("zzz", ["bm25"]) == ";" and listed([]) == "none" and listed("ab") == "a, b"
