import re
import xml.etree.ElementTree as ElementTree

from raypipe.report.charts import COLOURS, Chart, svg

LINES = {"bm25 <&>": [(5, 0.25), (10, 0.5)], "dense": [(5, 0.1), (10, 0.2)]}
CHART = Chart("Recall", "depth", "recall", LINES, log_x=True)


def test_a_chart_is_one_element_with_its_words_as_text_and_the_same_bytes_again():
    drawn = svg(CHART)
    root = ElementTree.fromstring(drawn)
    assert root.tag.endswith("}svg")
    words = {element.text for element in root.iter() if element.tag.endswith("}text")}
    assert {"depth", "recall", "bm25 <&>", "dense", "5", "10"} <= words
    assert svg(CHART) == drawn and drawn.startswith("<svg")


def test_lines_have_colours_of_their_own_and_the_rest_has_the_pages():
    drawn = svg(CHART)
    assert "currentColor" in drawn and "#010203" not in drawn
    assert {"#0072b2", "#d55e00"} <= set(re.findall(r"stroke: (#[0-9a-f]{6})", drawn))


def test_points_lie_where_their_values_are():
    """Logarithmic in x: 20 is as far from 10 as 10 from 5; twice as high is half as low."""
    chart = Chart("C", "x", "y", {"a": [(5, 0.0), (10, 1.0), (20, 3.0)]}, True)
    root = ElementTree.fromstring(svg(chart))
    paths = [element.get("d") or "" for element in root.iter() if element.tag.endswith("}path")]
    path = next(each for each in paths if each.count("L") == 2 and "z" not in each)
    points = [tuple(map(float, at.split())) for at in re.findall(r"[ML] ([\d.]+ [\d.]+)", path)]
    (x1, y1), (x2, y2), (x3, y3) = points
    assert abs((x2 - x1) - (x3 - x2)) < 0.01
    assert abs((y1 - y2) * 3 - (y1 - y3)) < 0.01


def test_more_lines_than_colours_have_other_markers():
    lines = {f"s{n}": [(1, n), (2, n + 1)] for n in range(len(COLOURS) + 1)}
    drawn = svg(Chart("C", "x", "y", lines))
    uses = re.findall(r'<use xlink:href="#(\w+)" [^>]*style="fill: #(\w+)', drawn)
    markers = {}
    for marker, colour in uses:
        markers.setdefault(colour, set()).add(marker)
    of_first = markers[COLOURS[0][1:].lower()]
    assert drawn.count("stroke-dasharray") == 2, "of the ninth line and of its place in the legend"
    assert len(of_first) == 2, "the ninth line has the first one's colour and another marker"


def words_of(drawn):
    root = ElementTree.fromstring(drawn)
    return [element.text for element in root.iter() if element.tag.endswith("}text")]


def test_labels_of_an_axis_do_not_touch_and_a_single_line_has_its_name():
    points = [(100, 0.1), (500, 0.2), (594, 0.3), (1000, 0.4)]
    words = words_of(svg(Chart("C", "depth", "y", {"only": points}, log_x=True)))
    assert "594" not in words and {"100", "500", "1,000", "only"} <= set(words)


def test_a_small_difference_does_not_fill_the_picture():
    numbers = [
        float(word)
        for word in words_of(svg(Chart("C", "x", "y", {"a": [(1, 0.5), (2, 0.501)]})))
        if re.fullmatch(r"0\.\d+", word)
    ]
    assert max(numbers) - min(numbers) >= 0.03
