"""An outside project builds schemes from the installed package alone; the installed program loads them, or says why not."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("SHARDSIM_PROGRAM", str(ROOT / "build/release/shardsim")))
CONSUMER = ROOT / "tests/consumer"
SCENARIO = """
schemes: [zero3]
platform: ideal-8
world: 4
model: {kind: mlp, widths: [8, 16, 16, 16, 8]}
batch: {micro: 4}
steps: 5
"""


def run(*command, folder, **environment):
    command = [str(part) for part in command]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, env={**os.environ, **environment})


class Consumer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.scratch.name)
        cls.prefix, cls.build = cls.path / "installed", cls.path / "build"
        cls.program = cls.prefix / "bin/shardsim"
        cls.must("cmake", "--install", PROGRAM.parent, "--prefix", cls.prefix)
        cls.build_project(CONSUMER, cls.build, cls.prefix)
        (cls.path / "run.yaml").write_text(SCENARIO)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def must(cls, *command, folder=None, **environment):
        done = run(*command, folder=folder or cls.path, **environment)
        if done.returncode:
            raise AssertionError(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    @classmethod
    def build_project(cls, source, build, prefix, *targets):
        """Configures and builds with nothing but the package in sight: looking for Eigen, SimGrid or yaml-cpp is an error."""
        hidden = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("Eigen3", "SimGrid", "yaml-cpp", "nlohmann_json")]
        cls.must("cmake", "-S", source, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", *hidden)
        cls.must("cmake", "--build", build, *[word for target in targets for word in ("--target", target)])

    def plugin(self, name):
        return self.build / f"lib{name}.so"

    def results(self, *schemes, plugins=(), backend="simgrid", settings=()):
        arguments = [word for plugin in plugins for word in ("--plugin", plugin)]
        arguments += [word for setting in settings for word in ("--set", setting)]
        text = self.must(self.program, "run", "run.yaml", "--set", f"schemes=[{', '.join(schemes)}]", "--backend", backend,
                         "--json", "-o", self.path / "out", *arguments)
        return {result["scheme"]: result for result in json.loads(text)["results"]}

    def refused(self, code, *parts, plugins, scheme="zero3", backend="simgrid"):
        arguments = [word for plugin in plugins for word in ("--plugin", plugin)]
        out = self.path / "refused"
        shutil.rmtree(out, ignore_errors=True)
        done = run(self.program, "run", "run.yaml", "--set", f"schemes=[{scheme}]", "--backend", backend, "-o", out, *arguments,
                   folder=self.path)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for part in parts:
            self.assertIn(str(part), done.stderr)
        self.assertFalse(out.is_dir() and any(out.iterdir()), "nothing half-written")

    def test_a_scheme_of_one_s_own_runs_on_both_backends_and_trains_to_the_same_bits(self):
        for settings, traffic in (([], (3, 3)), (["batch.accumulation=4"], (12, 9))):
            hashes = set()
            for backend in ("simgrid", "threads"):
                found = self.results("zero3", "whole_grads", plugins=[self.plugin("whole_grads")], backend=backend,
                                     settings=settings)
                self.assertEqual((found["zero3"]["traffic_units"], found["whole_grads"]["traffic_units"]), traffic)
                hashes.add(found["whole_grads"]["theta_hash"])
                if not settings:
                    hashes.add(found["zero3"]["theta_hash"])
            self.assertEqual(len(hashes), 1, hashes)

    def test_one_source_gives_the_same_figures_built_in_and_as_a_library(self):
        for backend in ("simgrid", "threads"):
            found = self.results("zero2", "zero2_again", plugins=[self.plugin("zero2_again")], backend=backend)
            built_in, loaded = found["zero2"], found["zero2_again"]
            for figure in ("theta_hash", "traffic_units", "resident_bytes", "peak_bytes", "loss_last"):
                self.assertEqual(built_in[figure], loaded[figure], figure)
            if backend == "simgrid":
                self.assertEqual(built_in["step_seconds"], loaded["step_seconds"])

    def test_a_class_that_is_called_as_a_built_in_one_stays_the_plugin_s_own(self):
        found = self.results("dp", "my_dp", plugins=[self.plugin("my_dp")])
        self.assertLess(found["my_dp"]["resident_bytes"], found["dp"]["resident_bytes"])
        self.assertEqual(found["my_dp"]["theta_hash"], found["dp"]["theta_hash"])

    def test_a_plugin_s_options_are_set_by_the_scenario_and_by_explain(self):
        plugin = self.plugin("first_kept")
        found = self.results("first_kept", "{name: first_kept, keep: 4}", plugins=[plugin])
        self.assertEqual(found["first_kept"]["traffic_units"], 3)
        self.assertEqual(found["first_kept-keep-4"]["traffic_units"], 2)
        self.assertEqual(found["first_kept"]["theta_hash"], found["first_kept-keep-4"]["theta_hash"])
        self.refused(2, "schemes[0].keep: has to be a whole number of at least 0", plugins=[plugin],
                     scheme="{name: first_kept, keep: -1}")
        explained = self.must(self.program, "explain", "first_kept", "--keep", 4, "--plugin", plugin)
        self.assertIn("keep: 4, not the default 0", explained)

    def test_list_and_explain_know_loaded_schemes(self):
        both = ["--plugin", self.plugin("whole_grads"), "--plugin", self.plugin("zero2_again")]
        listed = self.must(self.program, "list", "schemes", *both)
        self.assertRegex(listed, r'(?m)^whole_grads +zero3 that keeps "whole" gradients')
        self.assertRegex(listed, r"(?m)^zero2_again ")
        explained = self.must(self.program, "explain", "whole_grads", *both)
        self.assertIn("if (micro.reduces) reduce_scatter(u);", explained)  # its source came along

    def test_a_plugin_of_another_interface_is_refused_and_both_versions_are_named(self):
        prefix, build = self.path / "other", self.path / "other_build"
        shutil.copytree(self.prefix / "include", prefix / "include")
        shutil.copytree(self.prefix / "lib", prefix / "lib")
        header = prefix / "include/shardsim/core/band_scheme.h"
        text = header.read_text()
        header.write_text(text.replace("void adam();", "void adam(int unit = 0);"))  # adam() is gone: a missing symbol
        self.assertNotEqual(header.read_text(), text)
        self.build_project(CONSUMER, build, prefix, "whole_grads")
        ours, theirs = (self.interface_in(folder / "libwhole_grads.so") for folder in (self.build, build))
        self.assertNotEqual(ours, theirs)
        self.refused(2, f"{build}/libwhole_grads.so: was built for {theirs}", "this program has " + ours,
                     plugins=[build / "libwhole_grads.so"])

    def test_the_installed_program_uses_what_was_installed_with_it(self):
        (self.prefix / "share/shardsim/platforms/only-here.xml").write_text("<!-- Only here. -->")
        self.assertIn("only-here", self.must(self.program, "list", "platforms"))

    def interface_in(self, library):
        return re.search(rb"shardsim-interface-\w{12}", library.read_bytes()).group().decode()

    def test_two_schemes_of_one_name_are_refused(self):
        self.refused(2, self.plugin("zero3"), "two schemes are called 'zero3'", "built in", plugins=[self.plugin("zero3")])
        twice = shutil.copy(self.plugin("whole_grads"), self.path / "twice.so")
        self.refused(2, "two schemes are called 'whole_grads'", self.plugin("whole_grads"), twice,
                     plugins=[self.plugin("whole_grads"), twice])

    def test_what_is_no_plugin_is_refused(self):
        self.refused(2, "missing.so: there is no such file", plugins=["missing.so"])
        self.refused(2, f"{self.path}: is not a file", plugins=[self.path])
        self.refused(2, "run.yaml: is not a library that can be loaded", plugins=["run.yaml"])
        (self.path / "empty.so").write_bytes(b"")
        self.refused(2, "empty.so: is empty", plugins=["empty.so"])
        (self.path / "cut.so").write_bytes(self.plugin("whole_grads").read_bytes()[:3000])
        self.refused(2, "cut.so: is not a library that can be loaded", plugins=["cut.so"])
        (self.path / "nothing.cpp").write_text("int nothing;\n")
        self.must("c++", "-shared", "-fPIC", "nothing.cpp", "-o", "nothing.so")
        self.refused(2, "nothing.so: is not a plugin", "shardsim_add_scheme", plugins=["nothing.so"])

    def test_a_plugin_that_throws_ends_with_one_line_and_leaves_nothing(self):
        for backend in ("simgrid", "threads"):
            for name, parts in (("throws_when_made", ["libthrows_when_made.so", "no licence"]), ("throws_in_shard", ["no idea"]),
                                ("throws_in_step", ["step 0", "out of ideas"]), ("throws_number", ["no std::exception"]),
                                ("breaks_rule", ["step 0: I refuse"]), ("never_reduces", ["adam", "reduce"])):
                self.refused(3, f"'{name}'", *parts, plugins=[self.plugin(name)], scheme=name, backend=backend)

    def test_the_readme_s_five_minutes_work_word_by_word(self):
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        section = re.search(r"^## Write a scheme in five minutes\n(.*?)^## ", text, re.M | re.S).group(1)
        home = self.path / "home"
        (home / "my_schemes").mkdir(parents=True)
        commands = ""
        for kind, block in re.findall(r"^```(\w+)\n(.*?)^```", section, re.M | re.S):
            if kind == "sh":
                commands += block
            else:
                name = re.match(r"(?://|#) ([\w.]+)", block).group(1)
                (home / "my_schemes" / name).write_text(block)
        commands = commands.replace("build/release", str(PROGRAM.parent))
        shown = self.must("bash", "-euc", commands, folder=ROOT, HOME=str(home))
        self.assertRegex(shown, r"half_kept +3 \| 2\.5")
        self.assertEqual(len(set(re.findall(r"^theta: (\w+)", shown, re.M))), 1, shown)


if __name__ == "__main__":
    unittest.main()
