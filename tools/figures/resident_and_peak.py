# Resident against peak: what a rank holds between steps, and at the worst moment of one.
from runs import one
from style import cut_off, legend_above, names_below, scheme_colour, short, slide, write_above, write_rings

CAPTION = """Model state (param, grad, opt, gathered, bucket) of the rank that holds most, in bytes per
parameter: pale between steps, full at the worst moment of a step. The ring marks the closed form of the peak;
where it is off the bar, the run holds something that the formula does not know, or moves parameters in
another type. A bar with an arrow goes on beyond the scale, to the value that is written on it."""


def draw(runs):
    run = one(runs)
    figure, axes = slide()
    at, width = range(len(run.schemes)), 0.38
    colours = [scheme_colour(scheme, i) for i, scheme in enumerate(run.schemes)]
    resident = [run.figure(s, "resident_bytes_per_param") for s in run.schemes]
    peak = [run.figure(s, "model_state_peak_bytes_per_param") for s in run.schemes]
    formula = [run.figure(s, "formula_model_state_peak_bytes_per_param") for s in run.schemes]
    left, right = [x - width / 2 for x in at], [x + width / 2 for x in at]
    pale = axes.bar(left, resident, width, color=colours, alpha=0.45)
    full = axes.bar(right, peak, width, color=colours)
    cut_off(axes, left + right, resident + peak)
    write_above(axes, pale, map(short, resident))
    write_above(axes, full, map(short, peak), gap=4)
    known = [(x, f) for x, f in zip(right, formula) if f is not None]
    write_rings(axes, known, "closed form of the peak")
    axes.set(title="Resident (pale) and peak", ylabel="bytes per parameter")
    legend_above(figure)
    names_below(axes, run.schemes)
    return figure, resident + peak + formula
