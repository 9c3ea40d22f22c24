# A sweep of the prefetch or the bucket size: what a step takes, and what it holds at its peak.
import re

from runs import Unfit
from style import scheme_colour, slide

CAPTION = """Each point is a run; they differ in the setting below. Left: seconds of a step. Right: the peak
of everything that a rank holds. More units in flight hide more communication, and hold more."""
UNITS = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def bucket_megabytes(text):
    found = re.fullmatch(r"\{bucket: ([\d.eE+]+) ?([KMG]?i?B)\}", text or "")
    return found and float(found.group(1)) * UNITS[found.group(2)] / 1e6


def setting_of(runs):
    """(name, values) of what the runs differ in: prefetch or the bucket."""
    prefetch = [run.setting("prefetch") for run in runs]
    if len(set(prefetch)) > 1 and all(prefetch):
        numbers = [int(text) for text in prefetch if text.isdigit()]
        return "prefetched units", [float(text) if text.isdigit() else max(numbers, default=0) + 1 for text in prefetch], prefetch
    buckets = [bucket_megabytes(run.setting("units")) for run in runs]
    if len(set(buckets)) > 1 and all(buckets):
        return "bucket, MB", buckets, [f"{bucket:g}" for bucket in buckets]
    raise Unfit("needs runs that differ in prefetch, or in units: {bucket: ...}, and say so")


def draw(runs):
    name, values, texts = setting_of(runs)
    order = sorted(range(len(runs)), key=lambda i: values[i])
    figure, (left, right) = slide(1, 2)
    used = []
    schemes = list(dict.fromkeys(scheme for run in runs for scheme in run.schemes))
    for i, scheme in enumerate(schemes):
        width = 2.0 + 2.2 * (len(schemes) - 1 - i)  # equal lines lie on top of each other
        having = [j for j in order if scheme in runs[j].schemes]
        for axes, key, per in ((left, "step_seconds", 1e-3), (right, "peak_bytes", 2**30)):
            y = [runs[j].figure(scheme, key, per) for j in having]
            axes.plot([values[j] for j in having], y, "o-", color=scheme_colour(scheme, i), lw=width, label=scheme)
            used += y
    left.set(title="Step", xlabel=name, ylabel="ms")
    right.set(title="Total peak", xlabel=name, ylabel="GiB")
    for axes in (left, right):
        axes.set_xticks([values[j] for j in order], [texts[j] for j in order])
        axes.margins(y=0.15)
    left.legend()
    return figure, used
