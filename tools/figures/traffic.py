# Traffic by scheme: bytes sent per rank and step, in units of P(N-1)/N.
from runs import one
from style import legend_above, names_below, scheme_colour, short, slide, write_above, write_rings

CAPTION = """Bytes that a rank sends per step, in units of P(N-1)/N: P the bytes of all parameters, N the
ranks. The ring marks the closed form. Weights that are gathered twice in a pass (a tied embedding), and
gradients of another type, make a difference."""


def draw(runs):
    run = one(runs)
    figure, axes = slide()
    values = [run.figure(s, "traffic_units") for s in run.schemes]
    formulas = [run.figure(s, "formula_traffic_units") for s in run.schemes]
    bars = axes.bar(run.schemes, values, color=[scheme_colour(s, i) for i, s in enumerate(run.schemes)], width=0.62)
    axes.set(title="Traffic per step", ylabel="units of P(N−1)/N", ylim=(0, max(values) * 1.2 or 1))
    write_above(axes, bars, map(short, values), gap=5)
    known = [(s, f) for s, f in zip(run.schemes, formulas) if f is not None]
    write_rings(axes, known, "closed form")
    legend_above(figure)
    names_below(axes, run.schemes)
    return figure, values + formulas
