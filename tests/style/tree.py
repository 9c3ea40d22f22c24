# What the style tests read: the source files of the tree, their includes, and the exceptions that the README names.
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BACKENDS = ("backends/simgrid", "backends/threads", "backends/cuda")

# Who may know whom: folder of sim/ (or schemes, tools, tests) -> folders of sim/ that it may include and link.
ARROWS = {
    "core": [],
    "models": ["core"],
    "cost": ["core"],
    "memory": ["core"],
    "numerics": ["core"],
    **{backend: ["core", "cost", "memory", "numerics"] for backend in BACKENDS},
    "formats": ["core", "models"],
    "app": ["core", "models", "cost", "memory", "numerics", "formats", *BACKENDS],
    "schemes": ["core"],
}
EVERYTHING = ["app", *ARROWS["app"]]


def files(*suffixes):
    """Paths of the tree's own files, relative to its root, tracked or new; nothing that git ignores."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0:
        names = listed.stdout.splitlines()
    else:  # not a git checkout: all but the build's folders
        names = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file()]
        names = [n for n in names if n.split("/")[0] not in ("build", "results", ".git")]
    return sorted(n for n in names if (ROOT / n).is_file() and (not suffixes or n.endswith(suffixes)))


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def lines(name):
    return read(name).splitlines()


def folder(name):
    """The node of ARROWS that a file belongs to: sim/core/op.h -> core; schemes/textbook/dp.h -> schemes; else its top folder."""
    parts = name.split("/")
    if parts[0] != "sim" or len(parts) < 3:
        return parts[0]
    return "/".join(parts[1:3]) if parts[1] == "backends" else parts[1]


def target(include):
    """The node that an include in quotes points into, or None where it is a neighbour in the same folder."""
    parts = include.split("/")
    if parts[0] == "backends":
        return "/".join(parts[:2])
    if parts[0] in ("textbook", "systems"):
        return "schemes"
    return parts[0] if parts[0] in ARROWS else None


def includes(name):
    """(line number, opening character, path) of each include."""
    for number, line in enumerate(lines(name), 1):
        found = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if found:
            yield number, found.group(1), found.group(2)


def exceptions():
    """Files that the README's section "Exceptions to the size limits" names, in backquotes."""
    if not (ROOT / "README.md").exists():
        return set()
    section = re.search(r"^#+ Exceptions to the size limits\n(.*?)(?=^#|\Z)", read("README.md"), re.M | re.S)
    return set(re.findall(r"`([^`\n]+)`", section.group(1))) if section else set()
