# The split all-reduce: an all-reduce is a reduce-scatter and an all-gather, and the schemes differ in which halves they send.
from runs import one
from style import BYTES, legend_above, names_below, short, slide, unit_for, verb_colour

CAPTION = """Bytes that rank 0 sends in a step, by collective, norms and flags left out. dp's all-reduce and
zero1's reduce-scatter and all-gather send the same: the halves are only split, with Adam between them. zero3
gathers twice."""
VERBS = ["all_reduce", "reduce_scatter", "all_gather", "reduce", "broadcast", "all_to_all"]


def draw(runs):
    run = one(runs)
    figure, axes = slide()
    used, below = [], [0.0] * len(run.schemes)
    sent = {verb: [run.total(f"{s}/collectives.csv", "sent_bytes", run.figure(s, "steps"), rank=0, verb=verb, payload="data")
                   for s in run.schemes] for verb in VERBS}
    unit, size = unit_for(map(sum, zip(*sent.values())), BYTES)
    for verb, numbers in sent.items():
        if not any(numbers):
            continue
        values = [number.over(size) for number in numbers]
        bars = axes.bar(run.schemes, values, bottom=below, color=verb_colour(verb), label=verb, width=0.62, edgecolor="white")
        below = [b + value for b, value in zip(below, values)]
        used += values
        for bar, value in zip(bars, values):
            if value > 0:
                axes.text(bar.get_x() + bar.get_width() / 2, bar.get_y() + value / 2, short(value), ha="center", va="center",
                          fontsize=13)
    axes.set(title="What a step sends", ylabel=f"{unit} sent by rank 0", ylim=(0, max(below) * 1.25 or 1))
    legend_above(figure)
    names_below(axes, run.schemes)
    return figure, used
