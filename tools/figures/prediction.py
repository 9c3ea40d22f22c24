# Prediction against measurement: every row of public tables, as `shardsim validate --all --json` predicts it.
import json

from runs import Unfit, Value
from style import PALETTE, slide

CAPTION = """Each point is a row of a public table: what others measured, and what the simulator says. On the
line they agree; the grey band is 10 % to either side."""


def draw(validations):
    if not validations:
        raise Unfit("needs a file that 'shardsim validate --all --json' printed")
    figure, axes = slide(height=7)
    used, colours = [], PALETTE["schemes"]["others"]
    for file in validations:
        for i, table in enumerate(json.loads(file.read_text(encoding="utf-8"))):
            points = [[Value(row[key], file, f"{table['name']}, row {row['row']}: {key}") for row in table["rows"]]
                      for key in ("measured_seconds", "predicted_seconds")]
            marker, colour = "os^D"[i // len(colours) % 4], colours[i % len(colours)]
            axes.plot(*points, marker, ms=5, alpha=0.75, color=colour, label=table["name"])
            used += points[0] + points[1]
    low, high = min(used) * 0.8, max(used) * 1.25
    axes.plot([low, high], [low, high], color="black", lw=1.2)
    axes.fill_between([low, high], [low * 0.9, high * 0.9], [low * 1.1, high * 1.1], color="#8c8f99", alpha=0.25, lw=0)
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    axes.set(title="Prediction and measurement", xlabel="measured, seconds", ylabel="predicted, seconds")
    axes.legend(fontsize=10)
    return figure, used
