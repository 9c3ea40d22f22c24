# The ledger by stage: the 16 bytes of a parameter, and what each scheme keeps of them between steps.
from runs import one
from style import BANDS, cut_off, legend_above, names_below, short, slide, write_above, write_rings

CAPTION = """What a rank holds between steps, in bytes per parameter, by band. Each stage keeps a slice of one
band more; the ring marks the closed form. A bar with an arrow goes on beyond the scale, to the value that is written on it."""


def draw(runs):
    run = one(runs)
    figure, axes = slide()
    used, below = [], [0.0] * len(run.schemes)
    for band, colour in BANDS.items():
        values = [run.figure(s, f"resident_composition.{band}", run.figure(s, "parameters")) for s in run.schemes]
        if not any(values):
            continue
        bars = axes.bar(run.schemes, [value or 0 for value in values], bottom=below, color=colour, label=band, width=0.62)
        below = [b + (value or 0) for b, value in zip(below, values)]
        used += values
    totals = [run.figure(s, "resident_bytes_per_param") for s in run.schemes]
    axes.set(title="Resident model state", ylabel="bytes per parameter")
    cut_off(axes, range(len(totals)), totals)
    write_above(axes, bars, map(short, totals), gap=5)
    formulas = [run.figure(s, "formula_resident_bytes_per_param") for s in run.schemes]
    known = [(s, f) for s, f in zip(run.schemes, formulas) if f is not None]
    write_rings(axes, known, "closed form")
    legend_above(figure)
    names_below(axes, run.schemes)
    return figure, used + totals + formulas
