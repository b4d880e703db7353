"""Seeded mutants of bytes and of JSON-like data, as hypothesis strategies."""

import bz2
import copy
import gzip
import json
import zlib

import zstandard
from hypothesis import strategies as st

_PLACE = st.integers(0, (1 << 16) - 1)
SPECIAL = [
    b"\0",
    b"\n",
    b"\n\n",
    b"\r",
    b"\r\n",
    b"\t",
    b" ",
    b"\x0b",
    b"\xef\xbb\xbf",
    "\u0085".encode(),
    "\u2028".encode(),
    "\u00a0".encode(),
    b"\xff",
    b"\xed\xa0\x80",
    b"\xc3",
    b'"',
    b"'",
    b"\\",
    b"\\ud800",
    b"{",
    b"}",
    b"[",
    b"]",
    b"[" * 20_000,
    b'{"a":' * 5_000,
    b",",
    b":",
    b"#",
    b"&a",
    b"*a",
    b"!!python/name:os.system",
    b"${HOME}",
    b"-",
    b"-1",
    b"0",
    b"+5",
    b"_",
    b"1_0",
    b"nan",
    b"NaN",
    b"inf",
    b"-Infinity",
    b"1e400",
    b"1e-400",
    b"0x1p3",
    b"9" * 30,
    b"9" * 5_000,
    b"2147483648",
    b"9223372036854775808",
    b"x" * 5_000,
    "\u0661".encode(),
    b"PAR1",
    b"null",
    b"true",
]
"""Bytes that readers of lines, numbers, UTF-8, JSON and YAML have stumbled over."""


def mutants_of(*files, packed=False):
    """Bytes: a file changed in one to four places; a splice takes another one's part.

    With `packed`, a third are compressed after the changes, a third before, so that the
    compressed bytes are changed.
    """
    whole = _changed_bytes(files)
    if not packed:
        return whole
    inside = st.tuples(_PLACE, whole).map(lambda each: _packed(*each))
    squeezed = tuple(_packed(number, file) for file in files for number in range(3))
    return st.one_of(whole, inside, _changed_bytes(squeezed))


def unpacked(data):
    """The plain bytes of a file that Python's own modules can unpack; any other file as it is."""
    try:
        if data[:2] == b"\x1f\x8b":
            return gzip.decompress(data)
        if data[:3] == b"BZh":
            return bz2.decompress(data)
        if data[:4] == b"\x28\xb5\x2f\xfd":
            return zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
    except (OSError, EOFError, ValueError, zlib.error, zstandard.ZstdError):
        pass  # raypipe refuses it, or takes it for the plain text that it might be
    return data


def _packed(number, data):
    pack = (
        lambda data: gzip.compress(data, mtime=0),
        bz2.compress,
        zstandard.ZstdCompressor().compress,
    )
    return pack[number % len(pack)](data)


@st.composite
def _changed_bytes(draw, files):
    data = files[draw(_PLACE) % len(files)]
    for change, first, second in draw(_CHANGES):
        data = change(data, first, second, files)
    return data


def _at(data, place):
    return place * (len(data) + 1) >> 16


def _flip(data, first, second, files):
    if not data:
        return data
    at = min(_at(data, first), len(data) - 1)
    return data[:at] + bytes([data[at] ^ (1 << second % 8)]) + data[at + 1 :]


def _cut(data, first, second, files):
    at = _at(data, first)
    return data[:at] + data[at + 1 + second % 8 :]


def _insert(data, first, second, files):
    at = _at(data, first)
    return data[:at] + SPECIAL[second % len(SPECIAL)] + data[at:]


def _replace(data, first, second, files):
    """One word becomes something special, so that whole fields change."""
    words = data.split(b" ") if second % 2 else data.split(b"\t")
    words[first % len(words)] = SPECIAL[(second >> 1) % len(SPECIAL)]
    return (b" " if second % 2 else b"\t").join(words)


def _truncate(data, first, second, files):
    return data[: _at(data, first)]


def _repeat(data, first, second, files):
    at = _at(data, first)
    return data[:at] + data[at : at + 1 + second % 64] + data[at:]


def _repeat_line(data, first, second, files):
    lines = data.split(b"\n")
    lines.insert(second % len(lines), lines[first % len(lines)])
    return b"\n".join(lines)


def _swap_lines(data, first, second, files):
    lines = data.split(b"\n")
    a, b = first % len(lines), second % len(lines)
    lines[a], lines[b] = lines[b], lines[a]
    return b"\n".join(lines)


def _splice(data, first, second, files):
    other = files[second % len(files)]
    return data[: _at(data, first)] + other[_at(other, second) :]


_BYTES = [_flip, _cut, _insert, _replace, _truncate, _repeat, _repeat_line, _swap_lines, _splice]
_CHANGES = st.lists(st.tuples(st.sampled_from(_BYTES), _PLACE, _PLACE), min_size=1, max_size=4)

ODD = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    10**30,
    0.5,
    1e308,
    -0.0,
    "",
    "x",
    "\0",
    "\ud800",
    "..",
    "../../etc/passwd",
    "/dev/zero",
    "x" * 5_000,
    "\n",
    "\u2028",
    "9" * 20,
    "nan",
    [],
    {},
    [None],
    [[]],
    {"": None},
    {"a": {"b": [1]}},
    list(range(50)),
    "deep",
]
"""Values of a wrong type or size; "deep" stands for a list in a list, 60 times."""
BEYOND_JSON = [float("nan"), float("inf"), -float("inf"), 10**4500]
"""Numbers that Python reads from what is nearly JSON, or refuses to."""


@st.composite
def structures_of(draw, *bodies, beyond=()):
    """JSON-like data: a body with one to three parts of it gone, renamed, swapped or replaced."""
    holder = [copy.deepcopy(bodies[draw(_PLACE) % len(bodies)])]
    for edit, first, second in draw(_EDITS):
        places = list(_places(holder))
        parent, key = places[first % len(places)]
        edit(parent, key, second, places, [*ODD, *beyond])
        if not holder:
            return None
    return holder[0]


def as_json(body):
    """The bytes of nearly JSON; None if Python does not write it."""
    try:
        return json.dumps(body).encode()
    except (ValueError, RecursionError):
        return None


def _places(part):
    inside = part.items() if isinstance(part, dict) else enumerate(part)
    for key, value in list(inside):
        yield part, key
        if isinstance(value, dict | list):
            yield from _places(value)


def _odd(parent, key, second, places, odd):
    value = odd[second % len(odd)]
    if isinstance(value, str) and value == "deep":
        value = []
        for _ in range(60):
            value = [value]
    parent[key] = copy.deepcopy(value) if value != parent[key] else None


def _drop(parent, key, second, places, odd):
    del parent[key]


def _rename(parent, key, second, places, odd):
    if isinstance(parent, dict):
        names = ["", "\0", "\ud800", "../../etc/passwd", "9" * 20, key.upper(), f"{key} "]
        parent[names[second % len(names)]] = parent.pop(key)


def _copy_over(parent, key, second, places, odd):
    other, its = places[second % len(places)]
    parent[key] = copy.deepcopy(other[its])


def _nudge(parent, key, second, places, odd):
    value = parent[key]
    if isinstance(value, bool) or value is None:
        parent[key] = not value
    elif isinstance(value, int | float):
        parent[key] = value + (-1, 1, 10**6, -(10**6), 0.5)[second % 5]
    elif isinstance(value, str):
        at = second % (len(value) + 1)
        parent[key] = value[:at] + "\0é\u2028 /.%"[second % 7] + value[at:]
    elif isinstance(value, list):
        parent[key] = value + value[:1]
    else:
        parent[key] = {**value, "more": 1}


_EDITS = st.lists(
    st.tuples(st.sampled_from([_odd, _odd, _drop, _rename, _copy_over, _nudge]), _PLACE, _PLACE),
    min_size=1,
    max_size=3,
)
