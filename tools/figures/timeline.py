# The step's timeline for each scheme: what computes, what moves, and what overlaps.
from runs import Unfit, one
from style import SECONDS, legend_above, slide, title_left, unit_for, verb_colour

CAPTION = """The last step of rank 0, one row per stream. A collective that lies under forward or backward is
hidden; one with nothing above it is exposed, and the step waits for it."""
STREAMS = ["compute", "gather", "reduce", "copy"]


def draw(runs):
    run = one(runs)
    figure, all_axes = slide(len(run.schemes), 1, height=1.3 + 1.35 * len(run.schemes), sharex=True, squeeze=False)
    used, verbs = [], {}
    timelines = [list(run.rows(f"{scheme}/timeline.csv", rank=0)) for scheme in run.schemes]
    if not all(timelines):
        raise Unfit("has no timeline of rank 0; run it with --ranks 0")
    lasting = [row.value("end_seconds") - rows[0].value("begin_seconds") for rows in timelines for row in rows]
    unit, size = unit_for(lasting, SECONDS)
    for axes, scheme, rows in zip(all_axes[:, 0], run.schemes, timelines):
        streams = [stream for stream in STREAMS if any(row["stream"] == stream for row in rows)]
        begin = rows[0].value("begin_seconds", size)
        for row in rows:
            first, last = row.value("begin_seconds", size), row.value("end_seconds", size)
            verb = "control" if row["payload"] == "control" else row["verb"]
            verbs[verb] = verb_colour(verb)
            axes.broken_barh([(first - begin, last - first)], (streams.index(row["stream"]) - 0.42, 0.84), color=verbs[verb], lw=0)
            used += [first, last]
        axes.set_yticks(range(len(streams)), streams, fontsize=11)
        axes.set_ylim(max(2, len(streams)) - 0.4, -0.6)
        title_left(axes, scheme)
        axes.grid(axis="y", visible=False)
    all_axes[-1, 0].set_xlabel(f"{unit} since the begin of the step")
    legend_above(figure, verbs)
    return figure, used
