"""What all pictures share: names, scales, sizes, and colours that can be read in print, on screen and in the dark."""

from __future__ import annotations

import json
import math
from typing import Any, Dict, List, Mapping, Sequence

import altair as alt

__all__ = [
    "AREA",
    "WHOLE",
    "HEIGHT",
    "WIDTH",
    "axis",
    "below",
    "key",
    "left_out",
    "plain",
    "scale",
    "side_by_side",
    "layered",
    "sized",
    "title",
]

AREA = "area in register-bit equivalents"
#: Size of a picture that stands alone.
WIDTH, HEIGHT = 480, 300
#: Colours that people with any sight of colours can tell apart (those of Okabe and Ito), dark and light grounds alike.
COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8f7a00", "#7f7f7f"]
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left"]
#: A legend that cuts no name.
WHOLE = alt.Legend(labelLimit=0, symbolLimit=0)
#: The most names of a legend below a picture that stand side by side.
_SHORT = 24


def plain(name: str) -> str:
    """A column as Vega-Lite takes it: a dot is a part of the name there, too."""
    return name.replace(".", "\\.")


def title(name: str) -> str:
    """A column as people read it."""
    if name == "area_rbe":
        return AREA
    return name.replace("config.", "").replace("_", " ").replace(".", " ")


def by_decades(values: Any) -> bool:
    """Whether values span more than two decades."""
    least, most = values.min(), values.max()
    return bool(least > 0 and most > 100 * least)


def scale(values: Any) -> alt.Scale:
    """By decades where values span more than two of them; where there are zeros beside, from the least on."""
    if by_decades(values):
        return alt.Scale(type="log")
    above = values[values > 0]
    if values.min() == 0 and len(above) and above.max() > 100 * above.min():
        return alt.Scale(type="symlog", constant=float(above.min()))
    return alt.Scale(zero=False)


def axis(values: Any) -> Any:
    """Of decades, each has a line and a number, and no other value has."""
    values = values[values > 0] if scale(values).to_dict().get("type") == "symlog" else values
    if not by_decades(values):
        form = "~s" if values.max() >= 10_000 else alt.Undefined
        return alt.Axis(format=form, labelOverlap="greedy", labelSeparation=8)
    first, last = math.floor(math.log10(values.min())), math.ceil(math.log10(values.max()))
    numbers = "datum.value >= 1 ? format(datum.value, '~s') : format(datum.value, '~g')"
    decades = [10.0**power for power in range(first, last + 1)]
    return alt.Axis(values=decades, labelExpr=numbers, labelOverlap="greedy")


def side_by_side(charts: Mapping[str, alt.Chart], columns: int, **properties: Any) -> alt.ConcatChart:
    """Pictures of one kind under their names, on the same scales."""
    size = {"width": 220, "height": 190, **properties}
    heads = {name: alt.TitleParams(lines(name, 36), fontSize=11, anchor="start") for name in charts}
    named = [chart.properties(title=heads[name], **size) for name, chart in charts.items()]
    drawn: alt.ConcatChart = alt.concat(*named, columns=min(columns, len(named)))
    shared = drawn.resolve_scale(x="shared", y="shared", color="shared", shape="shared")
    assert isinstance(shared, alt.ConcatChart)
    return shared


def below(names: Sequence[Any], **words: Any) -> alt.Legend:
    """A legend below the picture, which takes nothing of its width."""
    short = max((len(str(name)) for name in names), default=0) <= _SHORT
    return alt.Legend(
        orient="bottom", direction="vertical", columns=2 if short else 1, labelLimit=0, symbolLimit=0, **words
    )


def key(names: Sequence[Any], column: str, **words: Any) -> Dict[str, Any]:
    """Colour and shape of marks by their names: both in one legend, below. Names never lie upon marks then."""
    legend = below(names, title=words.pop("title", None))
    # As the data have them: a number is not its text.
    domain = [name.item() if hasattr(name, "item") else name for name in names]
    # Colours and shapes come together differently in each round of them: no two are the same.
    several = [SHAPES[(i + i // len(COLOURS)) % len(SHAPES)] for i in range(len(domain))]
    colours = [COLOURS[i % len(COLOURS)] for i in range(len(domain))]
    field = f"{plain(column)}:N"
    return {
        "color": alt.Color(field, scale=alt.Scale(domain=domain, range=colours), legend=legend),
        "shape": alt.Shape(field, scale=alt.Scale(domain=domain, range=several), legend=legend),
    }


def left_out(names: Sequence[str], why: str) -> Any:
    """A subtitle that names what a picture does not show, in lines that fit."""
    if not len(names):
        return alt.Undefined
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return lines(f"Not shown, because {why}: {', '.join(names[:4])}{more}")


def lines(text: str, width: int = 72) -> List[str]:
    """A text in lines of at most `width` characters; words are not cut."""
    import textwrap

    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


def sized(chart: Any, **properties: Any) -> alt.Chart:
    """A picture that stands alone."""
    drawn: alt.Chart = chart.properties(**{"width": WIDTH, "height": HEIGHT, **properties})
    return drawn


def layered(chart: Any, **properties: Any) -> alt.LayerChart:
    """As `sized`, of several layers."""
    drawn: alt.LayerChart = chart.properties(**{"width": WIDTH, "height": HEIGHT, **properties})
    return drawn


def in_script(text: str) -> str:
    """JSON that can stand in a script: no name in it ends the script or begins a comment."""
    return text.replace("<", "\\u003c")


class _Json:
    """What Altair makes JSON with where it writes HTML. By itself it would let a name end the script."""

    def __getattr__(self, name: str) -> Any:
        return getattr(json, name)

    @staticmethod
    def dumps(*words: Any, **keys: Any) -> str:
        return in_script(json.dumps(*words, **keys))


# Charts of farreach are Altair's, and so are those that users make of several: all of them are safe to save and show.
alt.utils.html.json = _Json()  # type: ignore[assignment, attr-defined]
