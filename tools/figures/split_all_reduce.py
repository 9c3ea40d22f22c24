# The split all-reduce: an all-reduce is a reduce-scatter and an all-gather, and the schemes differ in which halves they send.
from runs import one
from style import legend_above, short, slide, turn_long_names, verb_colour

CAPTION = """Bytes that rank 0 sends in a step, by collective, norms and flags left out. dp's all-reduce and
zero1's reduce-scatter and all-gather send the same: the halves are only split, with Adam between them. zero3
gathers twice."""
VERBS = ["all_reduce", "reduce_scatter", "all_gather", "reduce", "broadcast", "all_to_all"]


def draw(runs):
    run = one(runs)
    figure, axes = slide()
    used, below = [], [0.0] * len(run.schemes)
    for verb in VERBS:
        values = [run.total(f"{s}/collectives.csv", "sent_bytes", run.figure(s, "steps") * 2**20, rank=0, verb=verb, payload="data")
                  for s in run.schemes]
        if not any(values):
            continue
        bars = axes.bar(run.schemes, values, bottom=below, color=verb_colour(verb), label=verb, width=0.62, edgecolor="white")
        below = [b + value for b, value in zip(below, values)]
        used += values
        for bar, value in zip(bars, values):
            if value > 0:
                axes.text(bar.get_x() + bar.get_width() / 2, bar.get_y() + value / 2, short(value), ha="center", va="center",
                          fontsize=13)
    axes.set(title="What a step sends", ylabel="MiB sent by rank 0", ylim=(0, max(below) * 1.25 or 1))
    legend_above(figure)
    turn_long_names(axes, run.schemes)
    return figure, used
