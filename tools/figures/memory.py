# Memory over the last step, stacked by band, for each scheme.
from runs import Unfit, one
from style import BANDS, BOX, BYTES, SECONDS, beyond, legend_above, short, slide, title_left, unit_for

CAPTION = """What rank 0 holds in the course of the last step, stacked by band, all schemes on one scale, each to
the end of its step. What rises and falls is lent: activations from forward to backward, gathered parameters
and full gradients for a unit at a time. A scheme that goes beyond the scale has its peak written on it."""


def samples(run, scheme):
    """(seconds since the step began, {band: bytes}) of the last step: at its begin, at each entry, and at its end."""
    step = list(run.rows("steps.csv", scheme=scheme))[-1]
    begin, end = step.value("begin_seconds"), step.value("end_seconds")
    held, out = {}, []
    for row in run.rows(f"{scheme}/memory.csv", rank=0):
        at = row.value("seconds")
        if at > end:
            break
        if at >= begin and not out and held:
            out.append((0.0, dict(held)))
        held[row["band"]] = row.value("held_in_band_bytes")
        if at >= begin:
            out.append((at - begin, dict(held)))
    return (out or [(0.0, dict(held))]) + [(end - begin, held)]


def draw(runs):
    run = one(runs)
    over_time = {scheme: samples(run, scheme) for scheme in run.schemes}
    peaks = [max(sum(held.values()) for _, held in over_time[scheme]) for scheme in run.schemes]
    if not all(peaks):
        raise Unfit("has no memory of rank 0; run it with --ranks 0")
    cut = beyond(peaks)
    top = max(peak for i, peak in enumerate(peaks) if i not in cut)
    time, second = unit_for([at for every in over_time.values() for at, _ in every], SECONDS)
    unit, size = unit_for([top], BYTES)
    columns = 1 if len(run.schemes) == 1 else 2
    lines = -(-len(run.schemes) // columns)
    figure, all_axes = slide(lines, columns, height=1.6 + 2.4 * lines, sharex=True, sharey=True, squeeze=False)
    used, bands = [], {}
    for axes in all_axes.flat[len(run.schemes):]:
        axes.set_visible(False)
    for i, (axes, scheme) in enumerate(zip(all_axes.flat, run.schemes)):
        at = [seconds / second for seconds, _ in over_time[scheme]]
        held = [{band: value.over(size) for band, value in bytes.items()} for _, bytes in over_time[scheme]]
        present = [band for band in BANDS if any(each.get(band, 0) > 0 for each in held)]
        bands.update({band: BANDS[band] for band in present})
        axes.stackplot(at, [[each.get(band, 0) for each in held] for band in present], colors=[BANDS[band] for band in present],
                       step="post", lw=0)
        title_left(axes, scheme)
        used += [value for each in held for value in each.values()]
        if i in cut:
            name, per = unit_for([peaks[i]], BYTES)
            axes.text(0.5, 0.9, f"↑ {short(peaks[i] / per)} {name}", transform=axes.transAxes, ha="center", va="top", fontsize=13,
                      bbox=BOX)
    axes.set_ylim(0, 1.05 * top / size)
    for axes in all_axes[-1]:
        axes.set_xlabel(f"{time} since the begin of the step")
    for axes in all_axes[:, 0]:
        axes.set_ylabel(unit)
    legend_above(figure, bands)
    return figure, used
