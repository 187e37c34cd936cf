"""Pictures as people see them: no text lies upon another or is cut, and nothing is an empty strip."""

import math
import re
import xml.etree.ElementTree as ET

import pytest

pytest.importorskip("altair")
vl_convert = pytest.importorskip("vl_convert")

import gallery  # noqa: E402

_MOVE = re.compile(r"translate\(([-\d.e]+),([-\d.e]+)\)(?: rotate\(([-\d.e]+)\))?")
#: Width of a character, in parts of the size of the font: of the narrow ones that labels are made of.
_NARROW = 0.45


def _texts(element, x=0.0, y=0.0, angle=0.0):
    """The texts of a drawing, each with the corners of its box: they may be turned by a quarter."""
    found = _MOVE.match(element.get("transform", ""))
    if found:
        x, y, angle = x + float(found[1]), y + float(found[2]), angle + float(found[3] or 0)
    if element.get("opacity") == "0" or element.get("display") == "none":
        return
    if element.tag.endswith("}text"):
        size = float(element.get("font-size", "10").rstrip("px"))
        spans = [one.text or "" for one in element] or [element.text or ""]
        if not any(spans):
            return
        length = max(map(len, spans)) * size * _NARROW
        left = {"middle": length / 2, "end": length}.get(element.get("text-anchor"), 0.0)
        # The transform is that of the baseline of the first line.
        corners = [(-left, -size * 0.75), (length - left, size * 1.2 * (len(spans) - 1) + size * 0.1)]
        turn = math.radians(angle)
        turned = [
            (x + a * math.cos(turn) - b * math.sin(turn), y + a * math.sin(turn) + b * math.cos(turn))
            for a, b in corners
        ]
        xs, ys = zip(*turned)
        yield " ".join(spans), (min(xs), min(ys), max(xs), max(ys))
        return
    for child in element:
        yield from _texts(child, x, y, angle)


@pytest.fixture(scope="module")
def drawn():
    """Every picture as SVG."""
    return {name: vl_convert.vegalite_to_svg(chart.to_dict()) for name, chart in gallery.charts().items()}


def test_no_text_lies_upon_another_or_is_cut(drawn):
    faults = []
    for name, svg in drawn.items():
        root = ET.fromstring(svg)
        width, height = float(root.get("width")), float(root.get("height"))
        texts = list(_texts(root))
        assert len(texts) > 5, name
        for i, (text, (left, top, right, bottom)) in enumerate(texts):
            if "…" in text:
                faults.append(f"{name}: {text!r} is cut")
            if left < -2 or top < -2 or right > width + 2 or bottom > height + 2:
                faults.append(f"{name}: {text!r} is beyond the edge: {left, top, right, bottom} of {width, height}")
            for other, (l2, t2, r2, b2) in texts[:i]:
                if min(right, r2) - max(left, l2) > 2 and min(bottom, b2) - max(top, t2) > 2:
                    faults.append(f"{name}: {text!r} lies upon {other!r}")
    assert not faults, "\n".join(faults)


def test_pictures_have_the_room_they_need(drawn):
    for name, svg in drawn.items():
        root = ET.fromstring(svg)
        width, height = float(root.get("width")), float(root.get("height"))
        assert 400 <= width <= 1200 and height >= 200, f"{name}: {width} x {height}"


def test_the_check_finds_what_overlaps():
    """A picture whose names lie upon one another is found."""
    import altair as alt
    import pandas as pd

    frame = pd.DataFrame({"x": [1.0, 1.01], "y": [1.0, 1.0], "name": ["a long name", "another name"]})
    chart = alt.Chart(frame).mark_text().encode(x=alt.X("x:Q", axis=None), y=alt.Y("y:Q", axis=None), text="name")
    (one, a), (two, b) = _texts(ET.fromstring(vl_convert.vegalite_to_svg(chart.properties(width=400).to_dict())))
    assert {one, two} == {"a long name", "another name"}
    assert min(a[2], b[2]) - max(a[0], b[0]) > 2 and min(a[3], b[3]) - max(a[1], b[1]) > 2
