"""A hook of mkdocs: pages link to files beside docs/, which the site has as copies below `repository/`.

So the same link works in the repository and in the site. A folder is linked by its README.md; without one only the
link's text is left.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>\.\./[^)#\s]+)(?P<anchor>#[^)]*)?\)")
COPIES = "repository"


def linked_file(page: str, target: str) -> str | None:
    """Return the file outside docs/ to which a page of docs/ links, from the repository's root; None for another."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    if path.startswith("docs/"):
        return None
    return f"{path}/README.md" if (ROOT / path).is_dir() else path


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files that pages link to; those that are no Markdown as they are."""
    wanted = set()
    for file in files.documentation_pages():
        for link in LINK.finditer(file.content_string):
            if (path := linked_file(file.src_uri, link["target"])) is not None and (ROOT / path).is_file():
                wanted.add(path)
    for path in sorted(wanted):
        if path.endswith(".md"):
            text = re.sub(r"\[([^\]]*)\]\((?!https?:|#)[^)]*\)", r"\1", (ROOT / path).read_text(encoding="utf-8"))
            files.append(File.generated(config, f"{COPIES}/{path}", content=text))
        else:
            files.append(File.generated(config, f"{COPIES}/{path}", content=(ROOT / path).read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Have links to such files lead to their copies."""
    del config, files

    def copied(link: re.Match[str]) -> str:
        path = linked_file(page.file.src_uri, link["target"])
        if path is None:
            return link[0]
        if (ROOT / path).parent.is_dir() and not (ROOT / path).exists():
            return link["text"]
        target = posixpath.relpath(f"{COPIES}/{path}", posixpath.dirname(page.file.src_uri) or ".")
        return f"[{link['text']}]({target}{link['anchor'] or ''})"

    return LINK.sub(copied, markdown)
