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
        scheme, *where, key = place.split(": ")
        results = json.loads(file.read_text())["results"]
        if where:
            name = where[0].removeprefix("measured ")
            told = next(r for r in results if r["scheme"] == scheme)["measured"]
            return next(each for each in told if each["figure"] == name)[key]
        return functools.reduce(lambda found, name: found[name], key.split("."), next(r for r in results if r["scheme"] == scheme))
    rows = list(csv.DictReader(file.read_text().splitlines()))
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
        told = "measured={source: somebody, dp: {step_seconds: 90us, traffic: 2.1}, zero3: {step_seconds: 80us}}"
        for name, settings in {"eight": [told], "four": ["world=4"], "deep": ["prefetch=4"]}.items():
            options = [word for setting in ["steps=3", "expect={}", *settings] for word in ("--set", setting)]
            scenario = ROOT / "scenarios/by_layer.yaml"
            subprocess.run([PROGRAM, "run", scenario, "-o", cls.folder / name, "--quiet", *options], check=True)
        subprocess.run([PROGRAM, "sweep", scenario, "-o", cls.folder / "buckets", "--quiet", "--grid",
                        "units=layer,{bucket: 1KB},{bucket: 64KB},whole", "--set", "steps=2", "--set", "expect={}"], check=True,
                       stdout=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def figures(self, *words):
        return subprocess.run([PROGRAM, "figures", *words], capture_output=True, text=True)

    def test_a_stream_of_copies_has_a_row_in_the_timeline(self):
        run = self.folder / "copies"
        subprocess.run([PROGRAM, "run", ROOT / "scenarios/by_layer.yaml", "-o", run, "--quiet", "--set", "steps=3",
                        "--set", "expect={}", "--set", "streams=4", "--set", "schemes=[fsdp2]"], check=True)
        self.assertIn(",copy,", (run / "fsdp2/timeline.csv").read_text())
        done = self.figures(run, "-o", run / "figures", "--format", "svg")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(">copy<", (run / "figures/timeline.svg").read_text())

    def test_every_figure_is_made_in_svg_pdf_and_png_with_a_caption(self):
        out = self.folder / "all"
        validation = self.folder / "validation.json"
        validation.write_text(subprocess.run([PROGRAM, "validate", ROOT / "tables/llmq-zero1.csv", "--json"], capture_output=True,
                                             text=True, check=True).stdout)
        done = self.figures(*(self.folder / run for run in ("eight", "four", "deep", "buckets")), validation, "-o", out, "--format",
                            "svg,pdf,png")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("not made", done.stdout)
        names = [f"{run}_{name}" for run in ("eight", "four", "deep") for name in FIGURES] + ["scaling", "sweep", "prediction"]
        names += ["eight_measured", "buckets_sweep"]
        expected = {f"{name}.{kind}" for name in names for kind in ("svg", "pdf", "png", "txt", "csv")}
        self.assertEqual({path.name for path in out.iterdir()}, expected)
        for path in out.iterdir():
            self.assertGreater(path.stat().st_size, 100, path.name)

    def test_every_number_of_a_figure_stands_where_its_origin_says(self):
        out = self.folder / "numbers"
        self.assertEqual(self.figures(self.folder / "eight", self.folder / "buckets", "-o", out).returncode, 0)
        checked = 0
        for name in [*FIGURES, "measured", "sweep"]:
            with open(out / f"{name}.csv", newline="") as stream:
                for row in list(csv.DictReader(stream))[:200]:
                    number = number_at(pathlib.Path(row["file"]), row["place"]) / float(row["divided_by"])
                    self.assertAlmostEqual(number, float(row["drawn"]), delta=1e-12 * abs(number), msg=f"{name}: {row}")
                    checked += 1
        self.assertGreater(checked, 300)

    def test_bars_lines_and_labels_show_those_numbers_and_no_others(self):
        from runs import Run, sweep_points
        from style import plt, short
        folders = {name: ["eight"] for name in ["ledger", "resident_and_peak", "split_all_reduce", "traffic", "loss", "measured"]}
        of = {name: [Run(self.folder / run) for run in runs]
              for name, runs in {**folders, "scaling": ["eight", "four"], "sweep": ["eight", "deep"]}.items()}
        for name, runs in [*of.items(), ("sweep", sweep_points(self.folder / "buckets/sweep.csv"))]:
            figure, used = importlib.import_module(name).draw(runs)
            known = {f"{float(value):.9g}" for value in used if value is not None} | {"0"}
            texts = {short(value) for value in used if value is not None}
            for axes in figure.axes:
                shown = [bar.get_width() if name == "measured" else bar.get_height() for bar in axes.patches]
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

    def test_a_sweep_stands_in_the_order_of_its_values(self):
        import sweep
        from runs import sweep_points
        name, texts = sweep.setting_of(sweep_points(self.folder / "buckets/sweep.csv"))
        self.assertEqual((name, sorted(texts, key=sweep.place)), ("unit", ["layer", "{bucket: 1KB}", "{bucket: 64KB}", "whole"]))
        self.assertEqual(sorted(["unlimited", "2", "0", "10"], key=sweep.place), ["0", "2", "10", "unlimited"])

    def test_without_a_place_the_figures_go_beside_and_the_program_says_where(self):
        done = subprocess.run([PROGRAM, "figures", self.folder / "eight", "--only", "ledger"], capture_output=True, text=True,
                              cwd=self.folder)
        self.assertEqual(done.stdout, "ledger: ledger.svg\nFigures: figures/eight\n", done.stderr)
        self.assertTrue((self.folder / "figures/eight/ledger.svg").is_file())

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
