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
MANY = """schemes=[dp, zero1, zero2, zero3, zero3_keep, {name: deepspeed, stage: 3}, {name: deepspeed, stage: 2},
{name: megatron_distributed_optimizer, overlap_grad_reduce: true, overlap_param_gather: true},
{name: megatron_distributed_optimizer, use_distributed_optimizer: false}]"""
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
        for name, settings in {"eight": [told], "four": ["world=4"], "deep": ["prefetch=4"], "many": [MANY],
                               "many_of_four": [MANY, "world=4"]}.items():
            options = [word for setting in ["steps=3", "expect={}", *settings] for word in ("--set", setting)]
            scenario = ROOT / "scenarios/by_layer.yaml"
            subprocess.run([PROGRAM, "run", scenario, "-o", cls.folder / name, "--quiet", *options], check=True)
        for name, grid in {"buckets": ["units=layer,{bucket: 1KB},{bucket: 64KB},whole"],
                           "keys": ["batch.micro=4,1,16", "units=layer,whole"],
                           "moving": ["batch.micro,batch.accumulation=1:4,2:2,4:1", "streams=1,3", "schemes=[dp],[zero3]"]}.items():
            options = [word for each in grid for word in ("--grid", each)]
            subprocess.run([PROGRAM, "sweep", scenario, "-o", cls.folder / name, "--quiet", *options, "--set", "steps=1", "--set",
                            "numerics=off", "--set", "expect={}"], check=True, stdout=subprocess.DEVNULL)

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
        done = self.figures(run, "-o", self.folder / "of_copies", "--format", "svg")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(">copy<", (self.folder / "of_copies/timeline.svg").read_text())

    def test_every_figure_is_made_in_svg_pdf_and_png_with_a_caption(self):
        out = self.folder / "all"
        validation = self.folder / "validation.json"
        validation.write_text(subprocess.run([PROGRAM, "validate", ROOT / "tables/llmq-zero1.csv", "--json"], capture_output=True,
                                             text=True, check=True).stdout)
        done = self.figures(*(self.folder / run for run in ("eight", "four", "deep", "buckets", "keys")), validation, "-o", out,
                            "--format", "svg,pdf,png")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("not made", done.stdout)
        names = [f"{run}_{name}" for run in ("eight", "four", "deep") for name in FIGURES] + ["scaling", "sweep", "prediction"]
        names += ["eight_measured", "buckets_sweep", "keys_sweep", "keys_pareto"]
        expected = {f"{name}.{kind}" for name in names for kind in ("svg", "pdf", "png", "txt", "csv")}
        self.assertEqual({path.name for path in out.iterdir()}, expected)
        for path in out.iterdir():
            self.assertGreater(path.stat().st_size, 100, path.name)

    def test_every_number_of_a_figure_stands_where_its_origin_says(self):
        out = self.folder / "numbers"
        self.assertEqual(self.figures(self.folder / "eight", self.folder / "keys", "-o", out).returncode, 0)
        checked = 0
        for name in [*FIGURES, "measured", "sweep", "pareto"]:
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
        sweeps = [("sweep", sweep_points(self.folder / f"{sweep}/sweep.csv")) for sweep in ("buckets", "keys")]
        for name, runs in [*of.items(), *sweeps]:
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
        name, texts, others = sweep.along(sweep_points(self.folder / "buckets/sweep.csv"))
        self.assertEqual((name, others), ("unit", []))
        self.assertEqual(sorted(texts, key=sweep.place), ["layer", "1KB", "64KB", "whole"])
        self.assertEqual(sorted(["unlimited", "2", "0", "10"], key=sweep.place), ["0", "2", "10", "unlimited"])
        self.assertEqual(sorted(["full", "{every: 10}", "none", "{every: 2}"], key=sweep.place),
                         ["none", "{every: 2}", "{every: 10}", "full"])

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
        folder = "give its folder, as in: shardsim figures "
        for arguments, words in ((("eight", "-o", "foreign.yaml"), "foreign.yaml"),
                                 (("foreign.yaml", "-o", "nowhere"), "is not a file that 'shardsim validate --json' printed"),
                                 (("buckets/sweep.csv", "-o", "nowhere"), f"{folder}{self.folder}/buckets"),
                                 (("eight/zero3/memory.csv", "-o", "nowhere"), f"{folder}{self.folder}/eight"),
                                 (("eight/summary.json", "-o", "nowhere"), "its folder"),
                                 (("broken", "-o", "nowhere"), "is damaged: the key 'schema_version' is missing")):
            done = self.figures(*(part if part == "-o" else self.folder / part for part in arguments))
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def drawn(self, name, *folders):
        from runs import Run, sweep_points
        from style import plt
        files = [self.folder / folder for folder in folders]
        runs = sweep_points(files[0] / "sweep.csv") if (files[0] / "sweep.csv").exists() else [Run(file) for file in files]
        figure, _ = importlib.import_module(name).draw(runs)
        figure.canvas.draw()
        self.addCleanup(plt.close, figure)
        return figure

    def too_small(self, memory):
        """The sweep of two keys, as if its GPU had less memory."""
        folder = self.folder / f"keys_{memory}"
        folder.mkdir(exist_ok=True)
        rows = list(csv.DictReader((self.folder / "keys/sweep.csv").read_text().splitlines()))
        with open(folder / "sweep.csv", "w", newline="") as stream:
            writer = csv.DictWriter(stream, rows[0])
            writer.writeheader()
            for row in rows:
                fits = int(row["gpu_needed_bytes"]) <= memory
                writer.writerow({**row, "gpu_memory_bytes": memory, "status": "ok" if fits else "does_not_fit"})
        return folder.name, rows

    def test_the_front_of_a_sweep_is_what_no_run_beats_and_what_does_not_fit_stands_at_the_gpus_memory(self):
        memory = 2**20
        name, rows = self.too_small(memory)
        figure = self.drawn("pareto", name)
        points = [(int(row["gpu_needed_bytes"]), float(row["samples_per_second"])) for row in rows]
        fitting = [(m, s) for m, s in points if m <= memory]
        self.assertTrue(0 < len(fitting) < len(points))
        best = [(m, s) for m, s in fitting if not any(o <= m and f >= s and (o, f) != (m, s) for o, f in fitting)]
        lines = {line.get_label(): line.get_xydata() for line in figure.axes[0].lines}
        self.assertRegex(figure.axes[0].get_xlabel() + figure.axes[0].get_ylabel(), "MiB.*million")
        size = 2**20
        front = sorted((round(x * size), y) for x, y in lines["Pareto front"])
        self.assertEqual([m for m, _ in front], sorted({m for m, _ in best}))
        crosses = [x * size for line in figure.axes[0].lines if line.get_marker() == "x" for x in line.get_xdata()]
        self.assertEqual(crosses, [memory] * (len(points) - len(fitting)))
        self.assertEqual(lines["GPU's memory"][0][0] * size, memory)
        self.assertIn("On the front: 1 zero", figure.get_label())

    def test_a_sweep_of_several_keys_has_the_longest_one_along_the_axis_and_the_best_of_the_others(self):
        import sweep
        from runs import dimensions, sweep_points
        points = sweep_points(self.folder / "moving/sweep.csv")
        self.assertEqual(dimensions(points), [["batch.micro", "batch.accumulation"], ["streams"]])
        name, texts, others = sweep.along(points)
        self.assertEqual((name, set(texts), others), ("batch.micro, batch.accumulation", {"1:4", "2:2", "4:1"}, ["streams"]))
        labels = self.drawn("sweep", "moving").axes[0].get_legend_handles_labels()[1]
        self.assertEqual(labels, [f"{s}, streams {n}" for s in ("dp", "zero3") for n in (1, 3)])

        figure = self.drawn("sweep", "keys")  # five schemes of two units each are too many lines
        rows = list(csv.DictReader((self.folder / "keys/sweep.csv").read_text().splitlines()))
        for line in figure.axes[0].lines:
            for scheme in line.get_label().split(" = ") if len(line.get_xdata()) else []:
                best = [max(float(row["samples_per_second"]) for row in rows if (row["scheme"], row["batch.micro"]) == (scheme, n))
                        for n in ("1", "4", "16")]
                self.assertEqual([round(y * 1e6) for y in line.get_ydata()], [round(y) for y in best], scheme)
        self.assertEqual(len(figure.axes[0].get_legend_handles_labels()[1]), 5)
        self.assertIn("There are 2 combinations of the other keys (units): a point is the best of them", figure.get_label())
        nothing, _ = self.too_small(1)
        self.assertIn("No run fits", self.drawn("pareto", nothing).get_label())

    def test_memory_goes_on_to_the_end_of_the_step(self):
        import memory
        from runs import Run
        run = Run(self.folder / "eight")
        steps = list(csv.DictReader((self.folder / "eight/steps.csv").read_text().splitlines()))
        figure = self.drawn("memory", "eight")
        self.assertIn("µs", figure.axes[-2].get_xlabel())
        for axes, scheme in zip(figure.axes, run.schemes):
            last = [step for step in steps if step["scheme"] == scheme][-1]
            lasts = float(last["end_seconds"]) - float(last["begin_seconds"])
            self.assertEqual(memory.samples(run, scheme)[-1][0], lasts)
            for band in axes.collections:
                self.assertAlmostEqual(max(x for x, _ in band.get_paths()[0].vertices), lasts * 1e6, places=6, msg=scheme)

    def test_scaling_shows_memory_step_and_rate_and_lines_that_coincide_can_be_told(self):
        figure = self.drawn("scaling", "eight", "four")
        self.assertEqual([axes.get_ylabel() for axes in figure.axes],
                         ["bytes per parameter", "µs", "thousand samples per second"])
        for axes in figure.axes:
            self.assertEqual([line.is_dashed() for line in axes.lines], [False, True, True, True, True])
            sizes = [line.get_markersize() for line in axes.lines]
            self.assertEqual(sizes, sorted(set(sizes), reverse=True))

    def test_losses_that_are_the_same_are_one_line_with_all_names(self):
        losses = {}
        for row in csv.DictReader((self.folder / "many/steps.csv").read_text().splitlines()):
            losses[row["scheme"]] = losses.get(row["scheme"], ()) + (row["loss"],)
        groups = {}
        for scheme, of in losses.items():
            groups.setdefault(of, []).append(scheme)
        labels = self.drawn("loss", "many").axes[0].get_legend_handles_labels()[1]
        self.assertEqual(labels, [" = ".join(group) for group in groups.values()])
        self.assertTrue(labels[0].startswith("dp = zero1 = zero2 = zero3"))

    def test_units_are_those_of_the_largest_value(self):
        from style import BYTES, SECONDS, unit_for
        self.assertEqual([unit_for([value], SECONDS)[0] for value in (2.0, 0.5, 5e-6, 1e-9, 0.0)], ["s", "ms", "µs", "ns", "ns"])
        self.assertEqual([unit_for([1.0, None, value], BYTES)[0] for value in (3 * 2**30, 2**20, 500 * 2**10, 5.0)],
                         ["GiB", "MiB", "KiB", "B"])
        for name, folder, label in (("memory", "eight", "MiB"), ("sweep", "buckets", "µs"), ("split_all_reduce", "eight", "MiB")):
            self.assertIn(label, self.drawn(name, folder).axes[0].get_ylabel(), name)
        self.assertIn("µs", self.drawn("timeline", "eight").axes[-1].get_xlabel())

    def test_with_long_names_the_plots_are_at_least_half_of_a_figure_and_names_do_not_overlap(self):
        for name in [*FIGURES, "scaling"]:
            figure = self.drawn(name, "many", *(["many_of_four"] if name == "scaling" else []))
            box = figure.get_tightbbox(figure.canvas.get_renderer())
            inches = figure.get_size_inches()
            plots = sum(axes.get_position().width * axes.get_position().height for axes in figure.axes if axes.get_visible())
            self.assertGreater(plots * inches[0] * inches[1] / (box.width * box.height), 0.5, name)
            for axes in figure.axes:
                labels = [label.get_window_extent() for label in axes.get_xticklabels() if label.get_text() and axes.get_visible()]
                self.assertFalse([1 for one, two in zip(labels, labels[1:]) if one.x1 > two.x0], name)

    def test_a_bar_that_would_flatten_all_others_is_cut_off_with_its_value_on_it(self):
        results = {r["scheme"]: r for r in json.loads((self.folder / "many/summary.json").read_text())["results"]}
        for name, key in (("ledger", "resident_bytes_per_param"), ("resident_and_peak", "model_state_peak_bytes_per_param")):
            axes = self.drawn(name, "many").axes[0]
            values = {scheme: result[key] for scheme, result in results.items()}
            self.assertGreater(values["deepspeed-stage3"], 1000)
            self.assertLess(axes.get_ylim()[1], 30)
            texts = [text.get_text() for text in axes.texts]
            self.assertIn(f"{values['deepspeed-stage3']:.2f}".rstrip("0").rstrip("."), texts)
            self.assertIn("16", texts)
        memory = self.drawn("memory", "many")
        self.assertLess(memory.axes[0].get_ylim()[1], 10)
        self.assertEqual(sum("↑" in text.get_text() for axes in memory.axes for text in axes.texts), 2)
        self.assertEqual([text.get_text() for axes in self.drawn("memory", "eight").axes for text in axes.texts], [])


if __name__ == "__main__":
    unittest.main()
