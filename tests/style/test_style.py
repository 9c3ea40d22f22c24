# The house rules that can be read off the files: sizes, first lines, who may include and link whom, names, and a current README.
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from tree import ARROWS, EVERYTHING, ROOT, exceptions, files, folder, includes, lines, read, target

FORBIDDEN = {"manager", "helper", "helpers", "util", "utils", "context", "info", "impl"}

TYPE = r"\b(?:class|struct|union|enum|using)\s+(?:class\s+|\[\[\w+\]\]\s*)?(\w+)"

# Libraries whose headers stay in the folders that are made for them: pattern of the include -> folders, and the suffix they need.
LIBRARIES = {
    r"Eigen/|unsupported/Eigen": (["numerics"], ".cpp"),
    r"simgrid/|xbt/|smpi/": (["backends/simgrid"], ""),
    r"cuda|nccl|cublas": (["backends/cuda"], ""),
    r"yaml-cpp/": (["app"], ""),
    r"pugixml": (["app", "backends/simgrid"], ""),
    r"nlohmann/": (["app", "formats", "tests"], ""),
    r"CLI/": (["app"], ".cpp"),
    r"doctest/": (["tests"], ""),
}


class Style(unittest.TestCase):
    def expect_none(self, problems):
        if problems:
            self.fail("\n" + "\n".join(problems))

    def too_long(self, names, limit, what):
        allowed = exceptions()
        self.expect_none([f"{name}: {len(lines(name))} lines; {what} has at most {limit}" for name in names
                          if name not in allowed and len(lines(name)) > limit])

    def test_a_textbook_scheme_has_at_most_40_lines(self):
        schemes = [n for n in files(".h") if n.startswith("schemes/textbook/")]
        self.assertTrue(schemes)
        self.too_long(schemes, 40, "a textbook scheme")

    def test_a_header_has_at_most_150_lines(self):
        self.too_long(files(".h", ".hpp", ".cuh"), 150, "a header")

    def test_a_source_file_has_at_most_400_lines(self):
        self.too_long(files(".cpp", ".cu", ".py", ".cmake"), 400, "a source file")

    def test_a_line_has_at_most_132_columns(self):
        self.expect_none([f"{name}:{number}: {len(line)} columns; a line has at most 132"
                          for name in files(".h", ".cpp", ".cu", ".cuh", ".py", ".cmake", "CMakeLists.txt")
                          for number, line in enumerate(lines(name), 1) if len(line) > 132])

    def test_the_size_exceptions_name_files_that_exist_and_need_them(self):
        self.expect_none([f"README.md: the size exception `{name}` is no file" for name in sorted(exceptions())
                          if not (ROOT / name).is_file()])

    def test_the_first_line_of_every_source_file_says_what_it_is(self):
        problems = []
        for name in files(".h", ".cpp", ".cu", ".cuh", ".py", ".cmake", "CMakeLists.txt"):
            first = (lines(name) or [""])[0]
            if first.startswith("#!"):
                first = (lines(name) + [""])[1]
            mark = "//" if name.endswith((".h", ".cpp", ".cu", ".cuh")) else "#"
            is_docstring = name.endswith(".py") and first.startswith('"""')
            if not is_docstring and not re.match(re.escape(mark) + r" \S+( \S+)+", first):
                problems.append(f"{name}:1: the first line has to be a comment that says what the file is, not '{first}'")
        self.expect_none(problems)

    def test_includes_follow_the_arrows(self):
        problems = []
        for name in files(".h", ".cpp", ".cu", ".cuh"):
            here = folder(name)
            if here not in ARROWS:  # tools and tests know everything; only tests know schemes
                allowed = EVERYTHING + (["schemes"] if here == "tests" else [])
            else:
                allowed = [here, *ARROWS[here]]
            for number, quote, path in includes(name):
                there = target(path) if quote == '"' else None
                if there and there not in allowed:
                    problems.append(f"{name}:{number}: {here} -> {there} ({path}); allowed: {here} -> {', '.join(allowed)}")
        self.expect_none(problems)

    def test_targets_link_along_the_arrows(self):
        problems = []
        folders = {}  # library -> folder
        text = read("sim/CMakeLists.txt")
        libraries = re.findall(r"shardsim_library\((\w+) FOLDER (\S+)(.*?)\)", text, re.S)
        self.assertTrue(libraries)
        for library, place, _ in libraries:
            folders["shardsim_" + library] = place
        for library, place, body in libraries:
            for linked in re.findall(r"\bshardsim_\w+", body):
                if folders.get(linked) not in ARROWS[place]:
                    line = text[: text.index(f"shardsim_library({library} ")].count("\n") + 1
                    problems.append(f"sim/CMakeLists.txt:{line}: {place} -> {folders.get(linked)} (links {linked}); "
                                    f"allowed: {place} -> {', '.join(ARROWS[place])}")
        self.expect_none(problems)

    def test_core_and_models_include_the_standard_library_only(self):
        self.expect_none([f"{name}:{number}: {folder(name)} -> {path}; allowed: headers of the standard library"
                          for name in files(".h", ".cpp") if folder(name) in ("core", "models")
                          for number, quote, path in includes(name) if quote == "<" and re.search(r"[/.]", path)])

    def test_each_library_stays_in_its_folder(self):
        problems = []
        for name in files(".h", ".cpp", ".cu", ".cuh"):
            for number, _, path in includes(name):
                for pattern, (places, suffix) in LIBRARIES.items():
                    if re.match(pattern, path) and name != "tools/bench.cpp":
                        if folder(name) not in places or not name.endswith(suffix):
                            problems.append(f"{name}:{number}: {folder(name)} -> {path}; allowed: {', '.join(places)} {suffix}")
        self.expect_none(problems)

    def test_only_numerics_and_backends_know_real_sizes(self):
        self.expect_none([f"{name}:{number}: {folder(name)} -> numerics/real.h; allowed: numerics, backends"
                          for name in files(".h", ".cpp", ".cu", ".cuh") for number, _, path in includes(name)
                          if path == "numerics/real.h" and not folder(name).startswith(("numerics", "backends/", "tests"))])

    def test_types_and_files_have_names_that_say_something(self):
        problems = []
        for name in files(".h", ".cpp", ".cu", ".cuh", ".py", ".cmake"):
            words = re.split(r"[_.\-]", pathlib.Path(name).name.lower())
            if FORBIDDEN & set(words):
                problems.append(f"{name}: a file's name has no {'/'.join(sorted(FORBIDDEN & set(words)))} in it")
            if not name.endswith((".h", ".cpp", ".cu", ".cuh")):
                continue
            for number, line in enumerate(lines(name), 1):
                for kind in re.findall(TYPE, line.split("//")[0]):
                    words = {word.lower() for word in re.findall(r"[A-Z][a-z0-9]*|[a-z0-9]+", kind)}
                    if FORBIDDEN & words:
                        problems.append(f"{name}:{number}: the type {kind} has '{'/'.join(sorted(FORBIDDEN & words))}' in its name")
        self.expect_none(problems)

    def test_every_source_file_stands_in_a_list(self):
        listed = set(re.findall(r"[\w/]+\.cpp", read("tests/CMakeLists.txt")))
        listed = {f"tests/{name}" for name in listed} | {"tests/main.cpp"}
        for place, body in re.findall(r"shardsim_library\(\w+ FOLDER (\S+)(.*?)\)", read("sim/CMakeLists.txt"), re.S):
            listed |= {f"sim/{place}/{name}" for name in re.findall(r"\w+\.cpp", body)}
        self.expect_none([f"{name}: is in no list of a CMakeLists.txt" for name in files(".cpp")
                          if name.startswith(("sim/", "tests/")) and name not in listed])

    def test_the_root_holds_what_the_project_is_made_of_and_nothing_else(self):
        known = {".ci", ".clang-format", ".clang-tidy", ".gitignore", "CMakeLists.txt", "CMakePresets.json", "README.md", "cmake",
                 "docs", "platforms", "scenarios", "schemes", "sim", "tables", "tests", "tools", "web"}
        self.expect_none([f"{name}: is no part of the project" for name in files() if name.split("/")[0] not in known])

    def test_the_readme_shows_the_schemes_as_they_are(self):
        done = subprocess.run([sys.executable, ROOT / "tools/readme", "--check", "--steps"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_readme_shows_the_table_as_the_program_prints_it(self):
        done = subprocess.run([sys.executable, ROOT / "tools/readme", "--check", "--table"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
