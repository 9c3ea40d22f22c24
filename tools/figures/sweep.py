# A sweep: of one setting, as the prefetch or the bucket size, what a step takes, and what it holds at its peak; of several, how
# fast the training is and what it needs, over one of them.
import itertools
import re

from runs import SweepPoint, Unfit, dimensions
from style import (BYTES, PALETTE, RATES, SECONDS, legend_above, line_look, names_below, same_lines, scheme_colour, slide, unit_for,
                   wrapped)

CAPTION = """Each point is a run; they differ in the setting below, and stand at equal distances. Lines that are the
same in both panels are one, whose name says which they are; others that lie on each other are dashed."""
OF_ONE = [("Step", "step_seconds", SECONDS, ""), ("Total peak", "peak_bytes", BYTES, "")]
OF_SEVERAL = [("Speed", "samples_per_second", RATES, "samples per second"), ("GPU memory needed", "gpu_needed_bytes", BYTES, "")]
MOST_LINES = 9
NAMES = {"prefetch": "prefetched units", "units": "unit"}
UNITS = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
SMALLEST, LARGEST = ("off", "none", "layer"), ("unlimited", "whole", "full", "on")


def without_braces(text):
    """{bucket: 25MB} -> 25MB, {every: 4} -> every 4"""
    found = re.fullmatch(r"\{(\w+): ([^{},]*)\}", text)
    return text if not found else found[2] if found[1] == "bucket" else f"{found[1]} {found[2]}"


def place(text):
    """Where a value stands among others: words that say little, numbers by size, words that say much, the rest by name."""
    if text in SMALLEST or text in LARGEST:
        return (0, 0.0, "") if text in SMALLEST else (2, 0.0, "")
    number = re.fullmatch(r"(?:\w+ )?([+-]?\d+\.?\d*(?:[eE][+-]?\d+)?) ?([KMG]?i?B)?(?::.*)?", without_braces(text))
    return (1, float(number[1]) * UNITS[number[2] or "B"], "") if number else (3, 0.0, text)


def setting_of(runs):
    """Of runs: the one key in which they differ, and what each says there."""
    differing = [key for key in NAMES if len({run.setting(key) for run in runs}) > 1]
    if len(differing) != 1:
        raise Unfit(f"needs runs that differ in one of {', '.join(NAMES)}; these differ in "
                    f"{', '.join(differing) or 'none of them'}")
    if not all(run.setting(differing[0]) for run in runs):
        raise Unfit(f"needs runs that all say their {differing[0]}")
    return NAMES[differing[0]], [run.setting(differing[0]) for run in runs]


def along(points):
    """Of a sweep's points: the keys along the axis, what each point says there, and the keys that remain. Along the axis goes the
    key with the most numbers, with those that move with it."""
    groups = dimensions(points)
    if not groups:
        raise Unfit("needs a sweep whose runs differ in something beside the scheme")

    def size(group):
        values = {point.setting(group[0]) for point in points}
        return sum(place(value)[0] == 1 for value in values), len(values)

    first = max(groups, key=size)
    texts = [":".join(without_braces(point.setting(key)) for key in first) for point in points]
    return ", ".join(NAMES.get(key, key) for key in first), texts, [key for group in groups if group != first for key in group]


def best_of(points, scheme):
    """The fastest of these that fits, of the equally fast the one that needs least; None where there is none."""
    able = [point for point in points if scheme in point.schemes and point.fits(scheme)]
    return min(able, default=None, key=lambda p: (-p.figure(scheme, "samples_per_second"), p.figure(scheme, "gpu_needed_bytes")))


def lines_of(points, at, others):
    """({(scheme, combination of the other keys): {place on the axis: point}}, what the caption says of it)."""
    schemes = list(dict.fromkeys(scheme for point in points for scheme in point.schemes))
    lines = {}
    for x, point in sorted(zip(at, points), key=lambda pair: pair[0]):
        for scheme in point.schemes:
            combination = tuple(f"{key} {without_braces(point.setting(key))}" for key in others)
            lines.setdefault((scheme, combination), {})[x] = point
    if not others:
        return lines, ""
    names = ", ".join(others)
    if len(lines) <= MOST_LINES:
        return (dict(sorted(lines.items(), key=lambda line: schemes.index(line[0][0]))),
                f"A line for each scheme and combination of the other keys ({names}); a cross does not fit.")
    best = {}
    for x, scheme in itertools.product(sorted(set(at)), schemes):
        point = best_of([point for where, point in zip(at, points) if where == x], scheme)
        if point:
            best.setdefault((scheme, ()), {})[x] = point
    count = len({combination for _, combination in lines})
    return best, (f"There are {count} combinations of the other keys ({names}): a point is the best of them by samples per second, "
                  "of those that fit; where none fits there is no point.")


def draw(runs):
    if not runs:
        raise Unfit("needs a sweep with runs that have figures")
    swept = isinstance(runs[0], SweepPoint)
    name, texts, others = along(runs) if swept else (*setting_of(runs), [])
    said = dict(zip(texts, texts) if swept else enumerate(texts))  # at a place on the axis; each run has one, of a sweep each text
    order = sorted(said, key=lambda each: place(said[each]))
    at = [order.index(each) for each in (texts if swept else said)]
    lines, told = lines_of(runs, at, others)
    figure, both = slide(1, 2)
    figure.set_label(told)
    numbers, used = {line: [] for line in lines}, []
    for axes, (title, key, units, what) in zip(both, OF_SEVERAL if others else OF_ONE):
        unit, size = unit_for([point.figure(scheme, key) for (scheme, _), of in lines.items() for point in of.values()], units)
        axes.set(title=title, ylabel=unit + what)
        for (scheme, combination), of in lines.items():
            numbers[scheme, combination].append([point.figure(scheme, key, size) for point in of.values()])
    groups = same_lines({line: (*lines[line], *(y for of in numbers[line] for y in of)) for line in lines})
    schemes = list(dict.fromkeys(scheme for scheme, _ in lines))
    for i, group in enumerate(groups):
        scheme, combination = group[0]
        colours = PALETTE["schemes"]["others"]
        colour = scheme_colour(scheme, schemes.index(scheme)) if len(schemes) > 1 or not combination else colours[i % len(colours)]
        label = " = ".join(", ".join([scheme, *combination]) for scheme, combination in group)
        failing = [x for x, point in lines[group[0]].items() if others and not point.fits(scheme)]
        for axes, y in zip(both, numbers[group[0]]):
            axes.plot(list(lines[group[0]]), y, **line_look(i, len(groups)), color=colour, label=label)
            axes.plot(failing, [y[list(lines[group[0]]).index(x)] for x in failing], "x", color="black", ms=9)
        used += [value for line in group for y in numbers[line] for value in y]
    for axes in both:
        axes.set_xlabel("\n".join(wrapped(name, 40)))
        axes.margins(y=0.15)
        names_below(axes, [without_braces(said[each]) for each in order])
    legend_above(figure)
    return figure, used
