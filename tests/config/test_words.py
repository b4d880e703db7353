from raypipe.config.words import did_you_mean, in_words, listed


def test_values_are_shown_as_a_reader_names_them():
    values = [None, True, "ten", {}, [1], (), 7, 0.5]
    assert [in_words(value) for value in values] == [
        "nothing", "true", "text 'ten'", "a mapping", "a list", "a list", "7", "0.5",
    ]  # fmt: skip
    assert in_words("x" * 58) == f"text '{'x' * 58}'"
    assert in_words("x" * 59) == f"text '{'x' * 59}..."
    assert in_words(10**5000) == "a number of thousands of digits"
    assert did_you_mean("bm52", ["bm25", "dense"]) == "; did you mean bm25?"
    assert did_you_mean("zzz", ["bm25"]) == ";" and listed([]) == "none" and listed("ab") == "a, b"
