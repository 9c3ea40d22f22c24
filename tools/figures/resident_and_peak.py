# Resident against peak: what a rank holds between steps, and at the worst moment of one.
from runs import one
from style import legend_above, scheme_colour, short, slide, turn_long_names, write_above, write_rings

CAPTION = """Model state (param, grad, opt, gathered, bucket) of the rank that holds most, in bytes per
parameter: pale between steps, full at the worst moment of a step. The ring marks the closed form of the peak;
where it is off the bar, the run holds something that the formula does not know, or moves parameters in
another type."""


def draw(runs):
    run = one(runs)
    figure, axes = slide()
    at, width = range(len(run.schemes)), 0.38
    colours = [scheme_colour(scheme, i) for i, scheme in enumerate(run.schemes)]
    resident = [run.figure(s, "resident_bytes_per_param") for s in run.schemes]
    peak = [run.figure(s, "model_state_peak_bytes_per_param") for s in run.schemes]
    formula = [run.figure(s, "formula_model_state_peak_bytes_per_param") for s in run.schemes]
    bars = axes.bar([x - width / 2 for x in at], resident, width, color=colours, alpha=0.45)
    write_above(axes, bars, map(short, resident))
    bars = axes.bar([x + width / 2 for x in at], peak, width, color=colours)
    write_above(axes, bars, map(short, peak), gap=4)
    known = [(x + width / 2, f) for x, f in zip(at, formula) if f is not None]
    write_rings(axes, known, "closed form of the peak")
    axes.set(title="Resident (pale) and peak", ylabel="bytes per parameter", ylim=(0, max(peak) * 1.18))
    axes.set_xticks(list(at), run.schemes)
    legend_above(figure)
    turn_long_names(axes, run.schemes)
    return figure, resident + peak + formula
