# What a rank holds, how long a step takes and what all do in a second, over the number of ranks.
from runs import Unfit
from style import BYTES, RATES, SECONDS, legend_above, line_look, same_lines, scheme_colour, slide, unit_for

CAPTION = """Over the number of ranks, a point for each run: model state that a rank holds between steps, in bytes
per parameter (what is sharded shrinks as 1/N, what is not stays); the seconds of a step; and what all ranks
together do in a second. Schemes that are the same in all panels are one line, whose name says which they are; lines
that lie on each other in one panel only are dashed, so that all can be seen."""


def world(run):
    return run.summary["results"][0]["world"]


def draw(runs):
    worlds = sorted({world(run) for run in runs})
    if len(worlds) < 2:
        raise Unfit("needs runs that differ in world, as in --set world=4")
    runs = sorted(runs, key=world)
    having = {scheme: [run for run in runs if scheme in run.schemes] for run in runs for scheme in run.schemes}
    of_all = lambda key: [run.figure(scheme, key) for run in runs for scheme in run.schemes]
    rate = "samples" if of_all("samples_per_second") == of_all("tokens_per_second") else "tokens"
    panels = [("Resident model state", "resident_bytes_per_param", "bytes per parameter", 1.0)]
    for title, key, units, what in (("Step", "step_seconds", SECONDS, ""),
                                    ("All ranks", f"{rate}_per_second", RATES, f"{rate} per second")):
        unit, size = unit_for(of_all(key), units)
        panels.append((title, key, unit + what, size))
    figure, all_axes = slide(1, 3, height=6.4)
    lines = {scheme: [[run.figure(scheme, key, size) for run in of] for _, key, _, size in panels] for scheme, of in having.items()}
    groups = same_lines({scheme: [world(run) for run in having[scheme]] + sum(of, []) for scheme, of in lines.items()})
    used = []
    for axes, (title, _, label, _) in zip(all_axes, panels):
        axes.set(title=title, xlabel="ranks", ylabel=label)
        axes.set_xscale("log", base=2)
        axes.set_xticks(worlds, list(map(str, worlds)))
    for i, group in enumerate(groups):
        for axes, *numbers in zip(all_axes, *(lines[scheme] for scheme in group)):
            x = [run.figure(group[0], "world") for run in having[group[0]]]
            axes.plot(x, numbers[0], **line_look(i, len(groups)), label=" = ".join(group),
                      color=scheme_colour(group[0], list(having).index(group[0])))
            used += x + sum(numbers, [])
    for axes in all_axes:
        axes.margins(0.1)
        axes.set_ylim(0, None)
    legend_above(figure)
    return figure, used
