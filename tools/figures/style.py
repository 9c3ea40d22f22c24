# How the figures look: sizes for a slide, and the colours that the report uses, too.
import json
import pathlib
import re
import statistics

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Patch

PALETTE = json.loads((pathlib.Path(__file__).parent / "palette.json").read_text(encoding="utf-8"))
BANDS = PALETTE["bands"]
SOURCES = PALETTE["sources"]

SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
BYTES = {"PiB": 2.0**50, "TiB": 2.0**40, "GiB": 2.0**30, "MiB": 2.0**20, "KiB": 2.0**10, "B": 1.0}
RATES = {"million ": 1e6, "thousand ": 1e3, "": 1.0}
BOX = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "black"}
WIDTH = 10.0  # of a figure, in inches
CHARACTER = 0.62  # the width of one, in units of the font's size

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
    return plt.subplots(rows, columns, figsize=(WIDTH, height), **more)


def unit_for(values, units):
    """(name, size) of the largest unit that is not more than the largest of these values."""
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    return next(((name, size) for name, size in units.items() if size <= largest), list(units.items())[-1])


def wrapped(name, width, breaks=("(?= )", "(?=-)", "(?<=_)")):
    """The lines of a name, of at most `width` characters where it can be broken: at a blank, or else before -, or else after _."""
    if len(name) <= width or not breaks:
        return [name]
    lines = []
    for part in re.split(breaks[0], name):
        if lines and len(lines[-1] + part) <= width:
            lines[-1] += part
        else:
            lines += wrapped(part.lstrip(), width, breaks[1:])
    return lines


def fitted(names, inches, sizes, highest):
    """(size of the font, the names in lines) for names that have so much room each: the first size with which the lines are not too
    wide and together not more than `highest` inches; None where there is none."""
    for size in sizes:
        width = int(inches * 72 / (CHARACTER * size))
        texts = [wrapped(name, width) for name in names]
        if max(len(line) for lines in texts for line in lines) <= width and max(map(len, texts)) * size * 1.2 <= highest * 72:
            return size, texts
    return None


def legend_above(figure, colours=None):
    """The names of these colours, or of what the first axes show, above the title: there it covers nothing, and savefig's tight
    box makes room for it. In as many columns as make it lowest."""
    handles = [Patch(color=colour, label=name) for name, colour in (colours or {}).items()]
    handles = handles or figure.axes[0].get_legend_handles_labels()[0]
    if not handles:
        return
    names = [handle.get_label() for handle in handles]
    lines, _, columns, (size, texts) = legend_of(names, 13) or legend_of(names, 11) or (0, 0, 1, (9, [[name] for name in names]))
    if lines > 3 and size == 13:
        *_, columns, (size, texts) = legend_of(names, 11)
    figure.legend(handles, ["\n".join(lines) for lines in texts], ncols=columns, loc="lower center", bbox_to_anchor=(0.5, 1.0),
                  frameon=False, fontsize=size)


def legend_of(names, size):
    """(lines of the highest column, names that are broken, columns, the names as `fitted` says): the lowest legend; None where a
    name is too wide."""
    choices = []
    for columns in range(min(5, len(names)), 0, -1):
        rows, found = -(-len(names) // columns), fitted(names, WIDTH / columns - 0.7, [size], highest=WIDTH)
        if found:
            counts = [len(text) for text in found[1]]
            choices.append((max(sum(counts[i:i + rows]) for i in range(0, len(names), rows)), sum(counts), columns, found))
    return min(choices, default=None, key=lambda choice: choice[:2])


def title_left(axes, name):
    """A scheme's name above its panel."""
    columns = axes.get_subplotspec().get_gridspec().ncols
    size, lines = fitted([name], WIDTH / columns - 0.8, (14, 12, 10), highest=0.5) or (10, [wrapped(name, 60 // columns)])
    axes.set_title("\n".join(lines[0]), loc="left", fontsize=size, pad=2)


def names_below(axes, names):
    """Names under the bars, or values under the points: broken so that they stand beside each other, or else turned."""
    room = (WIDTH / axes.get_subplotspec().get_gridspec().ncols - 1) / len(names)
    found = fitted(names, room, (15, 13, 11), highest=0.7) or fitted(names, room, (11, 9), highest=1.7)
    if found:
        axes.set_xticks(range(len(names)), ["\n".join(lines) for lines in found[1]], fontsize=found[0])
    else:
        texts = ["\n".join(wrapped(name, 26)) for name in names]
        axes.set_xticks(range(len(names)), texts, fontsize=9, rotation=40, ha="right", rotation_mode="anchor")


def same_lines(lines):
    """The names of lines, together where all their numbers are the same: one line shows them, and its label says who they are."""
    groups = {}
    for name, numbers in lines.items():
        groups.setdefault(tuple(numbers), []).append(name)
    return list(groups.values())


def line_look(position, of):
    """Of lines that lie on each other all can be seen: later ones have gaps, and smaller markers."""
    gaps = [(0, (4, 4)), (0, (1.5, 3)), (0, (7, 3, 1.5, 3)), (0, (2, 6)), (4, (5, 8))]
    size = 5.0 + 8.0 * (of - 1 - position) / max(1, of - 1)
    return {"ls": gaps[(position - 1) % len(gaps)] if position else "-", "marker": "os^Dv"[position % 5], "ms": size, "mfc": "none",
            "mew": 1.8}


def beyond(totals):
    """Which of these bars are more than 20 times the median of the others: they would flatten all else."""
    return [i for i, total in enumerate(totals) if len(totals) > 2
            and total > 20 * statistics.median(totals[:i] + totals[i + 1:]) > 0]


def cut_off(axes, xs, totals):
    """An axis for the bars that are not beyond the others; those that are end at its top, with their value on them."""
    cut = beyond(totals)
    top = max((total for i, total in enumerate(totals) if i not in cut), default=0) * 1.25 or 1
    axes.set_ylim(0, top)
    for height, i in zip([0.9, 0.8] * len(cut), sorted(cut, key=lambda i: xs[i])):
        axes.scatter([xs[i]], [0.97 * top], marker="^", s=70, color="black", zorder=4)
        axes.text(xs[i], height * top, short(totals[i]), ha="center", va="center", fontsize=11, bbox=BOX, zorder=4)


def short(number):
    """At most two decimals, no zeros at the end."""
    return f"{number:.2f}".rstrip("0").rstrip(".")


def write_above(axes, bars, texts, gap=0.0):
    """What the bars show, above them; bars that the axis cuts off have it on them."""
    for bar, text in zip(bars, texts):
        top = bar.get_y() + bar.get_height()
        if top <= axes.get_ylim()[1]:
            axes.annotate(text, (bar.get_x() + bar.get_width() / 2, top), (0, 4 + gap), textcoords="offset points", ha="center",
                          va="bottom", fontsize=13 if len(axes.patches) < 20 else 11)


def write_rings(axes, points, label):
    """What a closed form says, around what is drawn; nothing where there is none."""
    if points:
        axes.plot([x for x, _ in points], [y for _, y in points], "o", mfc="none", mec="black", ms=11, mew=1.8, label=label)
