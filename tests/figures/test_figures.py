# The course figures: all are made in all formats, and none shows a number that does not stand in a run's files.
import csv
import functools
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("SHARDSIM_PROGRAM", str(ROOT / "build/release/shardsim"))
FIGURES = ["ledger", "resident_and_peak", "split_all_reduce", "traffic", "timeline", "memory", "loss"]
sys.path.insert(0, str(ROOT / "tools/figures"))


def number_at(file, place):
    """What a place of a file says, read without the figures' own reader."""
    if file.suffix == ".json" and ", row " in place:
        table, row, key = re.fullmatch(r"(.*), row (\d+): (\w+)", place).groups()
        tables = json.loads(file.read_text())
        return next(r[key] for t in tables if t["name"] == table for r in t["rows"] if r["row"] == int(row))
    if file.suffix == ".json":
        scheme, key = place.split(": ")
        results = json.loads(file.read_text())["results"]
        return functools.reduce(lambda found, name: found[name], key.split("."), next(r for r in results if r["scheme"] == scheme))
    rows = list(csv.DictReader(file.open(newline="")))
    if place.startswith("line "):
        line, column = re.fullmatch(r"line (\d+): (\w+)", place).groups()
        return float(rows[int(line) - 2][column])
    column, where = re.fullmatch(r"sum of (\w+) where (.*)", place).groups()
    conditions = [condition.split("=") for condition in where.split(", ")]
    return sum(float(row[column]) for row in rows if all(row[key] == value for key, value in conditions))


class Figures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.place.name)
        for name, settings in {"eight": [], "four": ["world=4"], "deep": ["prefetch=4"]}.items():
            options = [word for setting in ["steps=3", "expect={}", *settings] for word in ("--set", setting)]
            scenario = ROOT / "scenarios/by_layer.yaml"
            subprocess.run([PROGRAM, "run", scenario, "-o", cls.folder / name, "--quiet", *options], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def figures(self, *words):
        return subprocess.run([PROGRAM, "figures", *words], capture_output=True, text=True)

    def test_every_figure_is_made_in_svg_pdf_and_png_with_a_caption(self):
        out = self.folder / "all"
        validation = self.folder / "validation.json"
        validation.write_text(subprocess.run([PROGRAM, "validate", ROOT / "tables/llmq-zero1.csv", "--json"], capture_output=True,
                                             text=True, check=True).stdout)
        done = self.figures(self.folder / "eight", self.folder / "four", self.folder / "deep", validation, "-o", out, "--format",
                            "svg,pdf,png")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("not made", done.stdout)
        names = [f"{run}_{name}" for run in ("eight", "four", "deep") for name in FIGURES] + ["scaling", "sweep", "prediction"]
        expected = {f"{name}.{kind}" for name in names for kind in ("svg", "pdf", "png", "txt", "csv")}
        self.assertEqual({path.name for path in out.iterdir()}, expected)
        for path in out.iterdir():
            self.assertGreater(path.stat().st_size, 100, path.name)

    def test_every_number_of_a_figure_stands_where_its_origin_says(self):
        out = self.folder / "numbers"
        self.assertEqual(self.figures(self.folder / "eight", "-o", out).returncode, 0)
        checked = 0
        for name in FIGURES:
            with open(out / f"{name}.csv", newline="") as stream:
                for row in list(csv.DictReader(stream))[:200]:
                    number = number_at(pathlib.Path(row["file"]), row["place"]) / float(row["divided_by"])
                    self.assertAlmostEqual(number, float(row["drawn"]), delta=1e-12 * abs(number), msg=f"{name}: {row}")
                    checked += 1
        self.assertGreater(checked, 300)

    def test_bars_lines_and_labels_show_those_numbers_and_no_others(self):
        from runs import Run
        from style import plt, short
        for name in ["ledger", "resident_and_peak", "split_all_reduce", "traffic", "loss", "scaling", "sweep"]:
            folders = {"scaling": ["eight", "four"], "sweep": ["eight", "deep"]}.get(name, ["eight"])
            runs = [Run(self.folder / run) for run in folders]
            figure, used = importlib.import_module(name).draw(runs)
            known = {f"{float(value):.9g}" for value in used if value is not None} | {"0"}
            texts = {short(value) for value in used if value is not None}
            for axes in figure.axes:
                shown = [bar.get_height() for bar in axes.patches]
                shown += [y for line in axes.lines for y in line.get_ydata()]
                self.assertTrue(shown, name)
                self.assertEqual([y for y in shown if f"{float(y):.9g}" not in known], [], name)
                self.assertEqual([t.get_text() for t in axes.texts if t.get_text() not in texts], [], name)
            plt.close(figure)

    def test_the_same_runs_give_the_same_bytes(self):
        for out in ("once", "twice"):
            self.figures(self.folder / "eight", "-o", self.folder / out, "--only", "ledger,loss", "--format", "svg,pdf,png")
        for path in (self.folder / "once").iterdir():
            self.assertEqual(path.read_bytes(), (self.folder / "twice" / path.name).read_bytes(), path.name)

    def test_what_cannot_be_drawn_is_said(self):
        done = self.figures(self.folder / "eight", self.folder / "deep", "-o", self.folder / "some", "--only", "scaling")
        self.assertEqual(done.returncode, 2)
        self.assertIn("scaling: not made: it needs runs that differ in world", done.stdout)
        done = self.figures(self.folder, "-o", self.folder / "none")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("is no folder that 'shardsim run' wrote", done.stderr)
        self.assertFalse((self.folder / "none").exists())
        done = self.figures(self.folder / "eight", "-o", self.folder / "none", "--format", "gif")
        self.assertIn("choose from svg, pdf, png", done.stderr)

    def test_a_file_that_is_in_the_way_cut_or_foreign_is_said_in_a_line(self):
        scenario = self.folder / "foreign.yaml"
        scenario.write_text("name: not JSON\n", encoding="utf-8")
        broken = self.folder / "broken"
        broken.mkdir()
        (broken / "summary.json").write_text('{"results": "none"}', encoding="utf-8")
        for arguments, words in ((("eight", "-o", "foreign.yaml"), "foreign.yaml"),
                                 (("foreign.yaml", "-o", "nowhere"), "is not as a run"),
                                 (("broken", "-o", "nowhere"), "is no folder that")):
            done = self.figures(*(part if part == "-o" else self.folder / part for part in arguments))
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)
            self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
