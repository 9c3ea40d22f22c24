# Makes the course figures of runs: make.py RUN... [-o DIR] [--format svg,pdf,png]. A RUN is the folder of a run or of a sweep, or a
# file that `validate --json` printed.
import argparse
import csv
import importlib
import json
import os
import pathlib
import sys
import textwrap

from runs import Run, Unfit, dimensions, sweep_points

try:
    from style import plt
except ImportError:
    print("figures: matplotlib is missing; install it with: apt-get install python3-matplotlib", file=sys.stderr)
    sys.exit(2)

# Of one run; of several that differ (the last of a sweep, too). Others: of a sweep of several keys; of a run whose scenario tells
# of a real one; of validations.
OF_ONE = ["ledger", "resident_and_peak", "split_all_reduce", "traffic", "timeline", "memory", "loss"]
OF_SEVERAL = ["scaling", "sweep"]
ALL = [*OF_ONE, *OF_SEVERAL, "pareto", "measured", "prediction"]
# What reading a file that somebody has cut, emptied or edited may end in.
BROKEN = (LookupError, NameError, StopIteration, TypeError, ValueError)
METADATA = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}


def opened(folder):
    try:
        return Run(folder)
    except BROKEN as problem:
        raise ValueError(f"{folder}/summary.json: is not as a run writes it ({problem}); run the scenario again") from None


def checked(file):
    """A file that `validate --json` printed."""
    try:
        if isinstance(json.loads(file.read_text(encoding="utf-8")), list):
            return file
    except ValueError:
        pass
    for folder in file.absolute().parents[:2]:
        if any((folder / name).is_file() for name in ("summary.json", "sweep.csv")):
            where = folder if file.is_absolute() else os.path.relpath(folder)
            raise ValueError(f"{file}: is a file of a run or a sweep; give its folder, as in: shardsim figures {where}")
    raise ValueError(f"{file}: is not a file that 'shardsim validate --json' printed; of a run or a sweep give the folder")


def origins(used):
    """(file, place, what it is divided by, number as drawn) of each number, without repetitions, as they were drawn."""
    values = [value for value in used if value is not None]
    rows = [(str(value.file), value.place, f"{float(value.per):.17g}", f"{float(value):.17g}") for value in values]
    return list(dict.fromkeys(rows))


def write(figure, used, name, module, folder, formats):
    for kind in formats:
        unfinished = folder / f".{name}.{kind}.unfinished"
        figure.savefig(unfinished, format=kind, dpi=160, bbox_inches="tight", metadata=METADATA[kind])
        unfinished.replace(folder / f"{name}.{kind}")
    plt.close(figure)
    numbers = origins(used)
    with open(folder / f"{name}.csv", "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["file", "place", "divided_by", "drawn"])
        writer.writerows(numbers)
    files = ", ".join(dict.fromkeys(file for file, *_ in numbers))
    caption = " ".join(f"{module.CAPTION} {figure.get_label()}".split())
    origin = f"{len(numbers)} numbers, from {files}; {name}.csv says where each of them stands."
    text = textwrap.fill(caption, 100) + "\n\n" + textwrap.fill(origin, 100, break_on_hyphens=False) + "\n"
    (folder / f"{name}.txt").write_text(text, encoding="utf-8")


def prefixes_of(folders, word, alone=True):
    """What tells the figures of several folders apart: their names, or numbers where two have the same; nothing of one alone."""
    names = [folder.resolve().name for folder in folders]
    if alone and len(names) < 2:
        return [""] * len(names)
    return [f"{name}_" for name in names] if len(set(names)) == len(names) else [f"{word}{i}_" for i in range(1, len(names) + 1)]


def refuse(what):
    print(f"figures: {what}", file=sys.stderr)
    sys.exit(2)


def main():
    parser = argparse.ArgumentParser(prog="shardsim figures", description="Course figures from the files that runs wrote.")
    parser.add_argument("runs", nargs="+", metavar="RUN", type=pathlib.Path)
    parser.add_argument("-o", "--output", metavar="DIR", type=pathlib.Path, help="default: figures/ and the first RUN's name")
    parser.add_argument("--format", default="svg", help="svg, pdf, png; several with commas")
    parser.add_argument("--only", default="", help="figures by name, with commas")
    options = parser.parse_args()
    formats, wanted = options.format.split(","), [name for name in options.only.split(",") if name]
    for kind in formats:
        if kind not in METADATA:
            refuse(f"--format {kind}: choose from svg, pdf, png")
    for name in wanted:
        if name not in ALL:
            refuse(f"--only {name}: choose from {', '.join(ALL)}")
    output = options.output or pathlib.Path("figures") / options.runs[0].resolve().stem
    if output.exists() and not output.is_dir():
        refuse(f"-o {output}: is a file; name a folder for the figures")

    sweeps = [path for path in options.runs if (path / "sweep.csv").is_file()]
    validations = [checked(path) for path in options.runs if path.is_file()]
    runs = [opened(path) for path in options.runs if path not in sweeps + validations]
    output.mkdir(parents=True, exist_ok=True)
    prefixes = prefixes_of([run.folder for run in runs], "run")
    jobs = [(prefix + name, name, [run]) for prefix, run in zip(prefixes, runs) for name in OF_ONE]
    jobs += [(prefix + "measured", "measured", [run]) for prefix, run in zip(prefixes, runs) if run.has_measured]
    jobs += [(name, name, runs) for name in OF_SEVERAL if len(runs) > 1]
    for prefix, path in zip(prefixes_of(sweeps, "sweep", alone=len(runs) < 2), sweeps):
        points = sweep_points(path / "sweep.csv")
        jobs.append((prefix + "sweep", "sweep", points))
        if len(dimensions(points)) != 1 or "pareto" in wanted:
            jobs.append((prefix + "pareto", "pareto", points))
    jobs += [("prediction", "prediction", validations)] if validations else []
    made = 0
    for title, name, given in jobs:
        if wanted and name not in wanted:
            continue
        module = importlib.import_module(name)
        try:
            figure, used = module.draw(given)
        except Unfit as reason:
            print(f"{title}: not made: it {reason}")
            continue
        except BROKEN as problem:
            print(f"{title}: not made: {', '.join(str(each) for each in options.runs)}: a file is not as a run writes it "
                  f"({type(problem).__name__}: {problem}); run the scenario again", file=sys.stderr)
            continue
        write(figure, used, title, module, output, formats)
        print(f"{title}: {', '.join(f'{title}.{kind}' for kind in formats)}")
        made += 1
    if not made:
        refuse(f"none could be made of {', '.join(map(str, options.runs))}")
    print(f"Figures: {output}")


if __name__ == "__main__":
    try:
        main()
    except (OSError, *BROKEN) as problem:
        refuse(problem)
