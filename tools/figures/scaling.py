# How the resident bytes of a parameter shrink with the number of ranks.
from runs import Unfit
from style import legend_above, scheme_colour, slide

CAPTION = """Model state that a rank holds between steps, in bytes per parameter, over the number of ranks: a
point is a run. What is sharded shrinks as 1/N, what is not stays."""


def draw(runs):
    worlds = {run.summary["results"][0]["world"] for run in runs}
    if len(worlds) < 2:
        raise Unfit("needs runs that differ in world, as in --set world=4")
    runs = sorted(runs, key=lambda run: run.summary["results"][0]["world"])
    figure, axes = slide()
    used = []
    for i, scheme in enumerate(dict.fromkeys(scheme for run in runs for scheme in run.schemes)):
        having = [run for run in runs if scheme in run.schemes]
        x = [run.figure(scheme, "world") for run in having]
        y = [run.figure(scheme, "resident_bytes_per_param") for run in having]
        axes.plot(x, y, "o-", color=scheme_colour(scheme, i), label=scheme)
        used += x + y
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted(worlds), [str(world) for world in sorted(worlds)])
    axes.set(title="Resident model state over the ranks", xlabel="ranks", ylabel="bytes per parameter", ylim=(0, None))
    legend_above(figure)
    return figure, used
