"""Pages complete in themselves, for wide and narrow screens, light and dark."""

from __future__ import annotations

import json
from html import escape
from typing import Any, Dict, Union

from .base import HEIGHT, in_script

__all__ = ["page"]

_STYLE = """
:root { color-scheme: light dark; --paper: #fdfdfb; --ink: #1c1f24; --soft: #5d6470; --hair: #d3d5d2 }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14161a; --ink: #e8e9e6; --soft: #a2a8b1; --hair: #3a3f47 }
}
* { box-sizing: border-box }
body {
  margin: 0 auto; padding: 2rem 1.2rem 4rem; max-width: 64rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif; font-variant-numeric: tabular-nums;
}
h1 { font-size: clamp(1.4rem, 1rem + 1.9vw, 2.1rem); line-height: 1.25; overflow-wrap: anywhere }
h2 { margin: 2.4rem 0 .6rem; font-size: 1.15rem; overflow-wrap: anywhere }
p { overflow-wrap: anywhere }
.wide { overflow-x: auto }
.chart { width: 100% }
table { border-collapse: collapse; font-size: .92rem }
td, th { padding: .25em .9em .25em 0; text-align: right; border: 0; border-bottom: 1px solid var(--hair) }
td:first-child, th:first-child { text-align: left }
.vega-embed { width: 100% } .vega-embed summary { opacity: .35 }
"""
_DRAW = """
const charts = [];
const dark = matchMedia("(prefers-color-scheme: dark)");
function draw(id, given) {
  const place = document.getElementById(id), spec = JSON.parse(JSON.stringify(given));
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const ink = colour("--ink"), soft = colour("--soft"), hair = colour("--hair"), room = place.clientWidth;
  const text = { labelColor: soft, titleColor: ink };
  spec.background = "transparent";
  spec.config = Object.assign({}, spec.config, {
    axis: Object.assign({ gridColor: hair, domainColor: hair, tickColor: hair }, text), legend: text, header: text,
    title: { color: ink, subtitleColor: soft, anchor: "start" }, text: { color: ink }, view: { stroke: hair }
  });
  (function narrow(one) {
    // Pictures side by side are as many as there is room for.
    const parts = one.concat || one.vconcat || one.hconcat || [];
    if (one.concat && one.columns) {
      const width = parts[0].width, named = parts[0].encoding.y.type != "quantitative", labels = named ? 170 : 90;
      one.columns = Math.max(1, Math.min(one.columns, Math.floor(room / (width + labels))));
      if (one.columns == 1) for (const part of parts) part.width = Math.max(120, Math.min(width, room - labels - 30));
    }
    parts.forEach(narrow);
  })(spec);
  if (!spec.facet && !spec.vconcat && !spec.hconcat && !spec.concat) {
    spec.width = "container"; spec.autosize = { type: "fit-x", contains: "padding" };
  }
  const wrap = (text, width) => {
    const most = Math.max(24, Math.floor(room / width)), lines = [""];
    for (const word of [].concat(text).join(" ").split(" "))
      if ((lines[lines.length - 1] + " " + word).length > most) lines.push(word);
      else lines[lines.length - 1] = (lines[lines.length - 1] + " " + word).trim();
    return lines;
  };
  if (typeof spec.title == "string" || Array.isArray(spec.title)) spec.title = { text: spec.title };
  if (spec.title) spec.title.text = wrap(spec.title.text, 8);
  if (spec.title && spec.title.subtitle) spec.title.subtitle = wrap(spec.title.subtitle, 7);
  return vegaEmbed(place, spec, { actions: { source: false, compiled: false, editor: false } });
}
function all() { for (const [id, spec] of charts) draw(id, spec); }
dark.addEventListener("change", all);
let width = innerWidth;
addEventListener("resize", () => { if (innerWidth != width) { width = innerWidth; all(); } });
"""


def page(title: str, about: str, charts: Dict[str, Union[str, Any]], rest: str = "") -> str:
    """An HTML page: charts with the script that draws them.

    Args:
        title: its heading.
        about: a line below it.
        charts: by their headings; a text stands for itself.
        rest: HTML that follows.
    """
    import vl_convert

    script = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # its stub demands what may be left out
    body = []
    for i, (name, chart) in enumerate(charts.items()):
        if isinstance(chart, str):
            body.append(f"<h2>{escape(name)}</h2><p>{escape(chart)}</p>")
            continue
        spec = in_script(json.dumps(json.loads(chart.to_json())))
        body.append(
            f'<h2>{escape(name)}</h2><div class="wide"><div class="chart" id="chart{i}" '
            f'style="min-height:{HEIGHT}px"></div></div><script>charts.push(["chart{i}", {spec}]);</script>'
        )
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>{_STYLE}</style><script>{script}</script><script>{_DRAW}</script></head>
<body><h1>{escape(title)}</h1><p>{escape(about)}</p>{"".join(body)}{rest}<script>all();</script></body></html>
"""
