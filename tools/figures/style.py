# How the figures look: sizes for a slide, and the colours that the report uses, too.
import json
import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Patch

PALETTE = json.loads((pathlib.Path(__file__).parent / "palette.json").read_text(encoding="utf-8"))
BANDS = PALETTE["bands"]
SOURCES = PALETTE["sources"]

plt.rcParams.update({
    "font.family": "DejaVu Sans", "font.size": 15, "axes.titlesize": 17, "axes.labelsize": 15, "legend.fontsize": 13,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.grid.axis": "y", "grid.color": "#e3e5ea",
    "axes.axisbelow": True, "figure.constrained_layout.use": True, "svg.hashsalt": "shardsim", "svg.fonttype": "none",
    "pdf.fonttype": 42, "lines.linewidth": 2.5})


def scheme_colour(scheme, position=0):
    others = PALETTE["schemes"]["others"]
    return PALETTE["schemes"].get(scheme, others[position % len(others)])


def verb_colour(verb):
    return PALETTE["verbs"].get(verb, PALETTE["verbs"]["others"])


def slide(rows=1, columns=1, height=5.6, **more):
    return plt.subplots(rows, columns, figsize=(10, height), **more)


def legend_above(figure, colours=None):
    """The names of these colours, or of what the first axes show, above the title: there it covers nothing, and savefig's tight
    box makes room for it."""
    handles = [Patch(color=colour, label=name) for name, colour in (colours or {}).items()]
    handles = handles or figure.axes[0].get_legend_handles_labels()[0]
    if handles:
        figure.legend(handles=handles, ncols=min(5, len(handles)), loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)


def short(number):
    """At most two decimals, no zeros at the end."""
    return f"{number:.2f}".rstrip("0").rstrip(".")


def write_above(axes, bars, texts, gap=0.0):
    for bar, text in zip(bars, texts):
        axes.annotate(text, (bar.get_x() + bar.get_width() / 2, bar.get_y() + bar.get_height()), (0, 4 + gap),
                      textcoords="offset points", ha="center", va="bottom", fontsize=13)


def write_rings(axes, points, label):
    """What a closed form says, around what is drawn; nothing where there is none."""
    if points:
        axes.plot([x for x, _ in points], [y for _, y in points], "o", mfc="none", mec="black", ms=11, mew=1.8, label=label)


def turn_long_names(axes, names):
    if max(map(len, names)) > 10 or len(names) > 7:
        plt.setp(axes.get_xticklabels(), rotation=20, ha="right", fontsize=11)
