# A sweep of one setting, as of the prefetch or the bucket size: what a step takes, and what it holds at its peak.
import re

from runs import SweepPoint, Unfit
from style import legend_above, scheme_colour, slide, turn_long_names

CAPTION = """Each point is a run; they differ in the setting below, and stand at equal distances. Left: seconds of a
step. Right: the peak of everything that a rank holds."""
NAMES = {"prefetch": "prefetched units", "units": "unit"}
UNITS = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
SMALLEST, LARGEST = ("off", "none", "layer"), ("unlimited", "whole", "on")


def without_braces(text):
    """{bucket: 25MB} -> 25MB"""
    return re.sub(r"^\{bucket: (.*)\}$", r"\1", text)


def place(text):
    """Where a value stands among others: words that say little, numbers by size, words that say much, the rest by name."""
    if text in SMALLEST or text in LARGEST:
        return (0, 0.0, "") if text in SMALLEST else (2, 0.0, "")
    number = re.fullmatch(r"([\d.eE+-]+) ?([KMG]?i?B)?", without_braces(text))
    return (1, float(number[1]) * UNITS[number[2] or "B"], "") if number else (3, 0.0, text)


def setting_of(runs):
    """The one key in which the runs differ, and what each says there."""
    keys = runs[0].settings if isinstance(runs[0], SweepPoint) else NAMES
    differing = {}
    for key in keys:
        texts = [run.setting(key) for run in runs]
        if len(set(texts)) > 1:
            differing[key] = texts
    if len(differing) != 1:
        raise Unfit(f"needs runs that differ in one of {', '.join(keys)}; these differ in {', '.join(differing) or 'none of them'}")
    key, texts = differing.popitem()
    if not all(texts):
        raise Unfit(f"needs runs that all say their {key}")
    return NAMES.get(key, key), texts


def draw(runs):
    name, texts = setting_of(runs)
    order = sorted(range(len(runs)), key=lambda i: place(texts[i]))
    figure, (left, right) = slide(1, 2)
    used = []
    schemes = list(dict.fromkeys(scheme for run in runs for scheme in run.schemes))
    for i, scheme in enumerate(schemes):
        width = 2.0 + 2.2 * (len(schemes) - 1 - i)  # equal lines lie on top of each other
        having = [(at, runs[j]) for at, j in enumerate(order) if scheme in runs[j].schemes]
        for axes, key, per in ((left, "step_seconds", 1e-3), (right, "peak_bytes", 2**30)):
            y = [run.figure(scheme, key, per) for _, run in having]
            axes.plot([at for at, _ in having], y, "o-", color=scheme_colour(scheme, i), lw=width, label=scheme)
            used += y
    left.set(title="Step", xlabel=name, ylabel="ms")
    right.set(title="Total peak", xlabel=name, ylabel="GiB")
    shown = [without_braces(texts[j]) for j in order]
    for axes in (left, right):
        axes.set_xticks(range(len(order)), shown)
        axes.margins(y=0.15)
        turn_long_names(axes, shown)
    legend_above(figure)
    return figure, used
