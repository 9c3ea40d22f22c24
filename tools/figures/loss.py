# Loss parity: the schemes' losses, step by step, on top of each other.
from runs import Unfit, one
from style import legend_above, scheme_colour, slide

CAPTION = """Mean loss of each step, before its update. Curves that are the same to the last bit lie on top of
each other: earlier ones are drawn wider, so that all can be seen."""


def draw(runs):
    run = one(runs)
    figure, axes = slide()
    used = []
    for i, scheme in enumerate(run.schemes):
        rows = [row for row in run.rows("steps.csv", scheme=scheme) if row["loss"]]
        losses = [row.value("loss") for row in rows]
        width = 2.0 + 2.6 * (len(run.schemes) - 1 - i)
        axes.plot([row.value("step") for row in rows], losses, color=scheme_colour(scheme, i), lw=width, label=scheme)
        used += losses
    if not used:
        raise Unfit("needs a run with numerics")
    entropy = run.figure(run.schemes[0], "entropy_nats_per_token")
    if entropy is not None:
        axes.axhline(entropy, color="#8c8f99", ls="--", lw=1.8, label="entropy of the language")
        used.append(entropy)
    twin = " (of the thin twin)" if run.summary["numerics"] == "twin" else ""
    axes.set(title="Loss" + twin, xlabel="step", ylabel="loss")
    axes.xaxis.get_major_locator().set_params(integer=True)
    legend_above(figure)
    return figure, used
