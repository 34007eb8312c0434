"""Check a built site: every link inside it leads somewhere, and nothing is fetched from elsewhere.

python docs/check_site.py docs/_build/html
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LINKS = {"a": "href", "area": "href"}
FETCHED = {"img": "src", "script": "src", "iframe": "src", "source": "src", "video": "src"}


class Page(HTMLParser):
    """Links, anchors and fetched files of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.fetched, self.anchors = [], [], {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        for name in ("id", "name"):
            if given.get(name):
                self.anchors.add(given[name])
        if tag in LINKS and given.get(LINKS[tag]):
            self.links.append(given[LINKS[tag]])
        if tag in FETCHED and given.get(FETCHED[tag]):
            self.fetched.append(given[FETCHED[tag]])
        if tag == "link" and given.get("rel") not in ("canonical", None) and given.get("href"):
            self.fetched.append(given["href"])


def written(root):
    """List the pages, without the theme's templates."""
    return [path for path in root.rglob("*.html") if "_static" not in path.parts]


def problems(root):
    """List broken links and remote files."""
    pages = {path.resolve(): Page(path) for path in written(root)}
    for path, page in sorted(pages.items()):
        here = path.relative_to(root.resolve())
        for target in page.fetched:
            if urlsplit(target).netloc:
                yield f"{here} fetches {target}"
        for target in page.links + page.fetched:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if file.is_dir():
                file /= "index.html"
            if not file.exists():
                yield f"{here} links to {target}, which does not exist"
            elif file in pages and unquote(parts.fragment) not in pages[file].anchors:
                yield f"{here} links to {target}, but there is no such place"
    if not (root / "searchindex.js").exists():
        yield "the search has no index"


def main():
    root = Path(sys.argv[1])
    found = list(problems(root))
    print(
        "\n".join(found) or f"{len(list(root.rglob('*.html')))} pages, every link leads somewhere"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
