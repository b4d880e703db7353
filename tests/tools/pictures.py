"""Takes the README's picture of a workspace's page: python tests/tools/pictures.py WORKSPACE.

The browser is the one that CHROMIUM names, or chromium on the PATH. It writes docs/report.png, the
first screen in light colours.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))
from browser import browser, browser_path

DOCS = Path(__file__).parents[2] / "docs"
PICTURE = "report.png"
WIDTH, HEIGHT = 1100, 720


def take(page, report, folder):
    """The picture of REPORT, into FOLDER."""
    page.open(report, width=WIDTH, height=HEIGHT)
    page.picture(folder / PICTURE)


def main(workspace):
    """Take it of a workspace's report.html."""
    path = browser_path()
    if path is None:
        sys.exit("no browser: name one with CHROMIUM=PATH, or install chromium")
    with browser(path) as page:
        take(page, Path(workspace) / "report.html", DOCS)


if __name__ == "__main__":
    main(*sys.argv[1:])
