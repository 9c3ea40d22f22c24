# Loss parity: the schemes' losses, step by step; those that are the same are one line.
from runs import Unfit, one
from style import legend_above, line_look, same_lines, scheme_colour, slide

CAPTION = """Mean loss of each step, before its update. Schemes whose losses are the same to the last bit are one
line, whose name says which they are; lines that only come close are dashed, so that all can be seen."""


def draw(runs):
    run = one(runs)
    figure, axes = slide()
    rows = {scheme: [row for row in run.rows("steps.csv", scheme=scheme) if row["loss"]] for scheme in run.schemes}
    losses = {scheme: [row.value("loss") for row in of] for scheme, of in rows.items()}
    used = [loss for scheme in run.schemes for loss in losses[scheme]]
    if not used:
        raise Unfit("needs a run with numerics")
    groups = same_lines({scheme: of for scheme, of in losses.items() if of})
    for i, group in enumerate(groups):
        look = line_look(i, len(groups))
        look["marker"] = look["marker"] if len(losses[group[0]]) <= 30 else None
        axes.plot([row.value("step") for row in rows[group[0]]], losses[group[0]], **look,
                  color=scheme_colour(group[0], run.schemes.index(group[0])), label=" = ".join(group))
    entropy = run.figure(run.schemes[0], "entropy_nats_per_token")
    if entropy is not None:
        axes.axhline(entropy, color="#8c8f99", ls="--", lw=1.8, label="entropy of the language")
        used.append(entropy)
    twin = " (of the thin twin)" if run.summary["numerics"] == "twin" else ""
    axes.set(title="Loss" + twin, xlabel="step", ylabel="loss")
    axes.xaxis.get_major_locator().set_params(integer=True)
    legend_above(figure)
    return figure, used
