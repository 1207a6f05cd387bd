"""Photographs the demo's privacy card on the screen and on paper: ``python docs/images/photograph.py``.

It needs a browser, pillow and pypdfium2, which nothing else here does, so it is no part of ``make pictures``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDE, TALL = 980, 7000
GAP, BEHIND = 16, (200, 204, 216)
COLOURS = 128


def main() -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(f"no browser found. Try: one of {', '.join(BROWSERS)}")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "tallystick", "demo"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        card = Path(folder, "tallystick-demo", "card.html").as_uri()
        screen, paper = Path(folder, "screen.png"), Path(folder, "paper.pdf")
        usual = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        subprocess.run([*usual, f"--window-size={WIDE},{TALL}", f"--screenshot={screen}", card], check=True)
        subprocess.run([*usual, "--no-pdf-header-footer", f"--print-to-pdf={paper}", card], check=True)
        print(_screen(screen, HERE / "privacy-card.png"))
        print(_paper(paper, HERE / "privacy-card-printed.png"))


def _screen(picture: Path, to: Path) -> Path:
    """The page without the empty window below it."""
    from PIL import Image, ImageChops

    page = Image.open(picture).convert("RGB")
    below = Image.new("RGB", page.size, page.getpixel((0, page.height - 1)))
    used = ImageChops.difference(page, below).getbbox()
    assert used is not None
    return _saved(page.crop((0, 0, page.width, min(page.height, used[3] + 24))), to)


def _paper(document: Path, to: Path) -> Path:
    """The printed pages side by side."""
    import pypdfium2
    from PIL import Image

    pages = [page.render(scale=0.9).to_pil().convert("RGB") for page in pypdfium2.PdfDocument(document)]
    wide, tall = pages[0].size
    sheet = Image.new("RGB", (len(pages) * (wide + GAP) + GAP, tall + 2 * GAP), BEHIND)
    for i, page in enumerate(pages):
        sheet.paste(page, (GAP + i * (wide + GAP), GAP))
    return _saved(sheet, to)


def _saved(picture: Any, to: Path) -> Path:
    picture.quantize(COLOURS).save(to, optimize=True)
    return to


if __name__ == "__main__":
    main()
