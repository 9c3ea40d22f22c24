# Memory over the last step, stacked by band, for each scheme.
from runs import Unfit, one
from style import BANDS, legend_above, slide

CAPTION = """What rank 0 holds in the course of the last step, stacked by band, all schemes on one scale. What
rises and falls is lent: activations from forward to backward, gathered parameters and full gradients for a
unit at a time."""


def samples(run, scheme):
    """(time in ms, {band: GiB}) at each entry of the last step, and what was held when it began."""
    step = list(run.rows("steps.csv", scheme=scheme))[-1]
    begin, end = step.value("begin_seconds"), step.value("end_seconds")
    held, out = {}, []
    for row in run.rows(f"{scheme}/memory.csv", rank=0):
        at = row.value("seconds")
        if at > end:
            break
        if at >= begin and not out and held:
            out.append((0.0, dict(held)))
        held[row["band"]] = row.value("held_in_band_bytes", 2**30)
        if at >= begin:
            out.append(((at - begin) * 1e3, dict(held)))
    return out or [(0.0, held)]


def draw(runs):
    run = one(runs)
    columns = 1 if len(run.schemes) == 1 else 2
    lines = -(-len(run.schemes) // columns)
    figure, all_axes = slide(lines, columns, height=1.6 + 2.4 * lines, sharex=True, sharey=True, squeeze=False)
    used, bands = [], {}
    for axes in all_axes.flat[len(run.schemes):]:
        axes.set_visible(False)
    for axes, scheme in zip(all_axes.flat, run.schemes):
        over_time = samples(run, scheme)
        if not any(held for _, held in over_time):
            raise Unfit("has no memory of rank 0; run it with --ranks 0")
        present = [band for band in BANDS if any(held.get(band, 0) > 0 for _, held in over_time)]
        bands.update({band: BANDS[band] for band in present})
        axes.stackplot([at for at, _ in over_time], [[held.get(band, 0) for _, held in over_time] for band in present],
                       colors=[BANDS[band] for band in present], step="post", lw=0)
        axes.set_title(scheme, loc="left", fontsize=14, pad=2)
        used += [value for _, held in over_time for value in held.values()]
    for axes in all_axes[-1]:
        axes.set_xlabel("ms since the begin of the step")
    for axes in all_axes[:, 0]:
        axes.set_ylabel("GiB")
    legend_above(figure, bands)
    return figure, used
