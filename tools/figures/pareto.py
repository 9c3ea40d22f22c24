# A sweep's runs as speed against memory, and those that no other run beats in both.
from runs import Unfit
from style import BYTES, RATES, legend_above, scheme_colour, slide, unit_for
from sweep import without_braces

CAPTION = """Samples per second against what a run needs of the GPU's memory, a point for each run of the sweep, by
scheme. The line is the Pareto front of those that fit: no run is both faster and smaller than one of these. A
cross does not fit: it stands at the memory of its GPU, whatever it needs, or at what it needs where it is the
host's memory that is too small."""


def front_of(runs):
    """Of (point, scheme): what no other one beats in both, the fastest first."""
    front, least = [], float("inf")
    for point, scheme in sorted(runs, key=lambda run: (-run[0].figure(run[1], "samples_per_second"),
                                                       run[0].figure(run[1], "gpu_needed_bytes"))):
        needed = point.figure(scheme, "gpu_needed_bytes")
        if needed < least:
            front.append((point, scheme))
            least = needed
    return front


def number(axes, places):
    """Numbers beside the points of the front; those of points that lie together stand together."""
    at = axes.transData.transform(places) if places else []
    first = 0
    for i in range(1, len(places) + 1):
        if i == len(places) or max(abs(at[i] - at[first])) > 15:
            text = str(first + 1) if i == first + 1 else f"{first + 1}–{i}"
            axes.annotate(text, places[first], (-6, 6), textcoords="offset points", ha="right", va="bottom", fontsize=11)
            first = i


def draw(points):
    runs = [(point, scheme) for point in points for scheme in point.schemes
            if point.figure(scheme, "samples_per_second") is not None and point.figure(scheme, "gpu_needed_bytes") is not None]
    if len(runs) < 2:
        raise Unfit("needs a sweep with at least two runs that have figures")
    rates, memories = ([point.figure(scheme, key) for point, scheme in runs] for key in ("samples_per_second", "gpu_needed_bytes"))
    (rate, per_second), (unit, size) = unit_for(rates, RATES), unit_for(memories, BYTES)
    figure, axes = slide(height=6.4)
    used = []

    def place(point, scheme):
        needed, has = (point.figure(scheme, key, size) for key in ("gpu_needed_bytes", "gpu_memory_bytes"))
        return has if has and needed > has else needed, point.figure(scheme, "samples_per_second", per_second)

    def show(chosen, **more):
        x, y = zip(*(place(*run) for run in chosen))
        axes.plot(x, y, **more)
        used.extend(x + y)

    for i, scheme in enumerate(dict.fromkeys(scheme for _, scheme in runs)):
        for fits in (True, False):
            chosen = [(point, of) for point, of in runs if of == scheme and point.fits(scheme) == fits]
            if chosen:
                look = {"marker": "o", "ms": 6, "alpha": 0.6, "label": scheme} if fits else {"marker": "x", "ms": 9, "mew": 1.8}
                show(chosen, ls="", color=scheme_colour(scheme, i), **look)
    if not all(point.fits(scheme) for point, scheme in runs):
        axes.plot([], [], "x", color="black", ms=9, mew=1.8, label="does not fit")
    front = front_of([(point, scheme) for point, scheme in runs if point.fits(scheme)])
    if front:
        show(front, color="black", lw=1.6, label="Pareto front")
    for memory in {point.figure(scheme, "gpu_memory_bytes", size): None for point, scheme in runs}:
        if memory and memory <= 2 * max(memories) / size:
            axes.axvline(memory, color="#8c8f99", ls="--", lw=1.8, label="GPU's memory")
            used.append(memory)
    axes.set(title="Speed against memory", xlabel=f"GPU memory needed, {unit}", ylabel=f"{rate}samples per second", xlim=(0, None))
    number(axes, [place(*run) for run in front])
    legend_above(figure)
    names = [", ".join([f"{i} {scheme}", *(f"{key} {without_braces(value)}" for key, value in point.settings.items())])
             for i, (point, scheme) in enumerate(front, 1)]
    figure.set_label(f"On the front: {'; '.join(names)}." if front else "No run fits.")
    return figure, used
