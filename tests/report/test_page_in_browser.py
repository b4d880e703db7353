"""The page as a browser shows it; by hand: CHROMIUM=PATH python -m pytest -m long THIS_FILE."""

import sys
from pathlib import Path

import pytest
from browser import browser, browser_path

from raypipe.report.contents import report

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

pytestmark = pytest.mark.long
MOST_BYTES = 200_000


@pytest.fixture(scope="module")
def opened():
    path = browser_path()
    if path is None:
        pytest.skip("no browser: name one with CHROMIUM=PATH, or install chromium")
    with browser(path) as page:
        yield page


@pytest.fixture(scope="module")
def page(finished):
    return report(finished)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390])
def test_it_asks_for_nothing_says_nothing_and_is_no_wider_than_the_screen(
    opened, page, width, scheme
):
    asked, said = opened.open(page, width=width, scheme=scheme)
    assert (asked, said) == ([], [])
    assert opened.value("document.documentElement.scrollWidth") == width
    ground = opened.value("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 22, 22)"}[scheme]


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_the_main_result_is_on_the_first_screen_and_no_chart_is_cut(opened, page, width, height):
    opened.open(page, width=width, height=height)
    second = "document.querySelectorAll('svg')[1].getBoundingClientRect()"
    assert opened.value(f"{second}.bottom") < height
    cut = "[...document.querySelectorAll('svg')].filter(e => e.getBoundingClientRect().right > %d)"
    assert opened.value(f"{cut % width}.length") == 0
    shaded = "getComputedStyle(document.querySelector('.wide')).backgroundAttachment"
    assert opened.value(shaded) == "local, local, scroll, scroll", "a shadow where a table goes on"


def test_a_request_and_an_error_would_be_seen(opened, tmp_path):
    told = '<img src="http://127.0.0.1:9/x.png"><script>console.error("no")</script>'
    (tmp_path / "bad.html").write_text(f"<!doctype html>{told}")
    asked, said = opened.open(tmp_path / "bad.html")
    assert asked == ["http://127.0.0.1:9/x.png"] and said


def test_each_cell_is_shown_and_the_page_can_be_printed(opened, page, tmp_path):
    opened.open(page)
    hidden = "[...document.querySelectorAll('td')].filter(e => !e.offsetHeight).length"
    assert opened.value(hidden) == 0
    opened.pdf(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")


def test_the_picture_of_the_readme_is_taken(opened, page, tmp_path):
    import pictures

    pictures.take(opened, page, tmp_path)
    for folder in (tmp_path, pictures.DOCS):
        data = (folder / pictures.PICTURE).read_bytes()
        assert data.startswith(b"\x89PNG") and len(data) < MOST_BYTES
