# What the figures read: the folders that runs wrote. Every number comes with its origin, the file and the place in it.
import csv
import functools
import json
import pathlib
import re


class Value(float):
    """A number and where it stands: a file, what to take there, and what it is divided by (1e-3: milliseconds from seconds)."""

    def __new__(cls, number, file, place, per=1.0):
        value = super().__new__(cls, number / per)
        value.number, value.file, value.place, value.per = number, pathlib.Path(file), place, per
        return value

    def over(self, size):
        """The same in units of this size."""
        return Value(self.number, self.file, self.place, self.per * size)


class Unfit(Exception):
    """These runs cannot make a figure: says what it would need."""


class Run:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.summary = json.loads((self.folder / "summary.json").read_text(encoding="utf-8"))
        self.results = {result["scheme"]: result for result in self.summary["results"]}
        self.schemes = list(self.results)
        self.has_measured = any(result.get("measured") for result in self.results.values())
        text = self.folder / "scenario.yaml"
        self.scenario = text.read_text(encoding="utf-8") if text.exists() else ""

    def figure(self, scheme, key, per=1.0):
        """A figure of summary.json, as in "step_seconds" or "resident_composition.param"; None where it is null or missing."""
        number = functools.reduce(lambda found, name: (found or {}).get(name), key.split("."), self.results[scheme])
        return None if number is None else Value(number, self.folder / "summary.json", f"{scheme}: {key}", per)

    def measured(self, scheme, figure, key, per=1.0):
        """What the scenario tells of a real run ("measured"), or this run's figure beside it ("here")."""
        told = next(each for each in self.results[scheme]["measured"] if each["figure"] == figure)
        return Value(told[key], self.folder / "summary.json", f"{scheme}: measured {figure}: {key}", per)

    def rows(self, file, **where):
        """The rows of a CSV file, as in "zero3/memory.csv", whose columns are as said."""
        with open(self.folder / file, newline="", encoding="utf-8") as stream:
            for number, row in enumerate(csv.DictReader(stream), 2):
                if all(row[column] == str(value) for column, value in where.items()):
                    yield Row(self.folder / file, number, row)

    def total(self, file, column, per=1.0, **where):
        """The sum of a column over these rows."""
        number = sum(float(row[column]) for row in self.rows(file, **where))
        return Value(number, self.folder / file, f"sum of {column} where " + ", ".join(f"{k}={v}" for k, v in where.items()), per)

    def setting(self, key):
        """What the scenario says at a key of its first level, or None; "key: value" stands on one line."""
        found = re.search(rf"^{key}: (.*)$", self.scenario, re.M)
        return found and found.group(1).strip()


class SweepPoint:
    """A point of a sweep's grid, with what figures of several runs ask of a run."""

    def __init__(self, settings):
        self.settings, self.lines = settings, {}

    @property
    def schemes(self):
        return list(self.lines)

    def figure(self, scheme, key, per=1.0):
        row = self.lines[scheme]
        return row.value(key, per) if row[key] else None

    def setting(self, key):
        return self.settings.get(key)

    def fits(self, scheme):
        return self.lines[scheme]["status"] == "ok"


def sweep_points(file):
    """The points of a sweep.csv whose runs have figures, in the grid's order."""
    points = {}
    with open(file, newline="", encoding="utf-8") as stream:
        reader = csv.DictReader(stream)
        keys = [key for key in reader.fieldnames[:reader.fieldnames.index("scheme")] if key != "schemes"]
        for number, cells in enumerate(reader, 2):
            settings = {key: cells[key] for key in keys}
            if cells["step_seconds"]:
                point = points.setdefault(tuple(settings.values()), SweepPoint(settings))
                point.lines[cells["scheme"]] = Row(file, number, cells)
    return list(points.values())


def dimensions(points):
    """The keys in which the points of a sweep differ, those together whose values move together."""
    groups = []
    for key in points[0].settings if points else []:
        values = {point.setting(key) for point in points}
        for group in groups:
            pairs = {(point.setting(group[0]), point.setting(key)) for point in points}
            if len(pairs) == len(values) == len({first for first, _ in pairs}):
                group.append(key)
                break
        else:
            if len(values) > 1:
                groups.append([key])
    return groups


class Row:
    def __init__(self, file, number, cells):
        self.file, self.number, self.cells = file, number, cells

    def __getitem__(self, column):
        return self.cells[column]

    def value(self, column, per=1.0):
        return Value(float(self.cells[column]), self.file, f"line {self.number}: {column}", per)


def one(runs):
    """For figures of a single run."""
    if len(runs) != 1:
        raise Unfit("needs one run, and these are " + str(len(runs)))
    return runs[0]
