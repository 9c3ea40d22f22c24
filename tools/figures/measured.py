# Measured beside simulated: what the scenario tells of real runs, for each scheme.
from runs import Unfit, one
from style import BYTES, SECONDS, SOURCES, legend_above, short, slide, unit_for, wrapped

CAPTION = """What a real run took and held, as the scenario tells with its source, beside what the simulator says.
A panel for each figure that is told."""
UNITS = {"_seconds": SECONDS, "_bytes": BYTES}


def draw(runs):
    run = one(runs)
    told = {s: [each["figure"] for each in run.results[s].get("measured", [])] for s in run.schemes}
    names = list(dict.fromkeys(name for figures in told.values() for name in figures))
    if not names:
        raise Unfit("needs a scenario with measured figures, in its block measured")
    lines = -(-len(names) // 3)
    height = 1.2 + (0.6 + 0.8 * len(run.schemes)) * lines
    figure, all_axes = slide(lines, min(3, len(names)), height=height, squeeze=False, sharey=True)
    used = []
    for axes in all_axes.flat[len(names):]:
        axes.set_visible(False)
    for axes, name in zip(all_axes.flat, names):
        schemes = [s for s in run.schemes if name in told[s]]
        units = next((units for ending, units in UNITS.items() if name.endswith(ending)), {"": 1.0})
        unit, size = unit_for([run.measured(s, name, key) for s in schemes for key in ("here", "measured")], units)
        for source, key, shift in (("simulated", "here", -0.2), ("measured", "measured", 0.2)):
            values = [run.measured(s, name, key, size) for s in schemes]
            bars = axes.barh([run.schemes.index(s) + shift for s in schemes], values, 0.38, color=SOURCES[source], label=source)
            axes.bar_label(bars, list(map(short, values)), padding=4, fontsize=11)
            used += values
        axes.set_title(name, fontsize=12)
        axes.set_xlabel(unit)
        axes.margins(x=0.3)
        axes.grid(axis="y", visible=False)
        axes.set_yticks(range(len(run.schemes)), ["\n".join(wrapped(s, 24)) for s in run.schemes], fontsize=11)
        axes.set_ylim(len(run.schemes) - 0.4, -0.6)
    legend_above(figure)
    return figure, used
