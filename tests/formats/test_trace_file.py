"""trace.json against the conventions of PyTorch's profiler, and against the CSVs and the summary of the same run."""
import collections
import gzip
import json
import re
import tempfile
import unittest

import runs

COLLECTIVE_ARGS = {"Collective name", "In msg nelems", "Out msg nelems", "Group size", "dtype", "Process Group Name",
                   "Process Group Description", "Process Group Ranks", "Seq"}
HOST = 1 << 24  # the process of rank 0's host
KERNEL = re.compile(r"ncclDevKernel_(AllGather|(AllReduce|ReduceScatter)_Sum_(f32|bf16|f16))_(RING|TREE)_LL\(")


def covered(intervals):
    """The length of a union of intervals."""
    length, end = 0, float("-inf")
    for begin, stop in sorted(intervals):
        if stop > end:
            length += stop - max(begin, end)
            end = stop
    return length


class TraceFile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.traces, cls.results, cls.folders = [], [], []
        for name, text in (("textbook", runs.TEXTBOOK), ("systems", runs.SYSTEMS)):
            folder = f"{cls.place.name}/{name}"
            runs.os.mkdir(folder)
            out, _ = runs.run(folder, text)
            for result in runs.results(out):
                cls.results.append(result)
                cls.folders.append(out / result["scheme"])
                cls.traces.append(json.loads((out / result["scheme"] / "trace.json").read_text(encoding="utf-8")))

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def of(self, trace, phase, **wanted):
        return [e for e in trace["traceEvents"] if e["ph"] == phase and all(e[k] == v for k, v in wanted.items())]

    def test_the_head_says_what_the_profiler_says(self):
        for trace, result in zip(self.traces, self.results):
            self.assertEqual(trace["schemaVersion"], 1)
            self.assertEqual(trace["displayTimeUnit"], "ms")
            self.assertEqual(trace["traceName"], result["scheme"])
            info = trace["distributedInfo"]
            self.assertEqual((info["backend"], info["rank"], info["world_size"]), ("nccl", 0, result["world"]))
            self.assertEqual(info["pg_count"], len(info["pg_config"]))
            for group in info["pg_config"]:
                self.assertEqual(group["pg_size"], len(group["ranks"]))
            self.assertEqual([d["totalGlobalMem"] for d in trace["deviceProperties"]], [result["gpu_memory_bytes"]] * 4)

    def test_there_is_a_process_per_gpu_and_a_row_per_stream(self):
        for trace in self.traces:
            names = {(e["name"], e["pid"], e["tid"]): e["args"] for e in self.of(trace, "M")}
            processes = sorted({e["pid"] for e in trace["traceEvents"]})
            self.assertEqual(processes, [0, 1, 2, 3] + [HOST + rank for rank in range(4)])
            for rank in range(4):
                self.assertEqual(names["process_labels", HOST + rank, 0]["labels"], "CPU")
                self.assertLess(names["process_sort_index", HOST + rank, 0]["sort_index"], 0x1000000)
                self.assertEqual(names["process_labels", rank, 0]["labels"], f"GPU {rank}")
                self.assertEqual(names["process_sort_index", rank, 0]["sort_index"], 0x1000000 + rank)
            for kernel in self.of(trace, "X", cat="kernel"):
                self.assertEqual(kernel["tid"], kernel["args"]["stream"])
                self.assertEqual(kernel["pid"], kernel["args"]["device"])
                self.assertTrue(names["thread_name", kernel["pid"], kernel["tid"]]["name"].startswith(f"stream {kernel['tid']} "))

    def test_slices_of_a_row_follow_one_another(self):
        for trace in self.traces:
            ends = collections.defaultdict(float)
            for slice_ in self.of(trace, "X"):
                row = slice_["pid"], slice_["tid"]
                self.assertGreaterEqual(slice_["dur"], 0)
                if slice_["pid"] >= HOST:
                    row += slice_["cat"],  # an annotation around operators around calls: each kind for itself
                self.assertGreaterEqual(slice_["ts"], ends[row] - 1e-6, slice_)  # half of the last digit, in microseconds
                ends[row] = slice_["ts"] + slice_["dur"]

    def test_counters_run_forward_and_add_up(self):
        for trace in self.traces:
            last = collections.defaultdict(float)
            bands = self.of(trace, "C", name="memory by band (bytes)")
            totals = self.of(trace, "C", name="memory (bytes)")
            self.assertEqual(len(bands), len(totals))
            for band, total in zip(bands, totals):
                self.assertEqual((band["pid"], band["ts"]), (total["pid"], total["ts"]))
                self.assertGreaterEqual(band["ts"], last[band["pid"]])
                last[band["pid"]] = band["ts"]
                self.assertEqual(sum(band["args"].values()), total["args"]["total"])
                self.assertGreaterEqual(min(band["args"].values()), 0)

    def test_every_flow_has_both_ends_on_slices(self):
        flows = 0
        for trace in self.traces:
            ids = [sorted(e["id"] for e in self.of(trace, phase)) for phase in "sf"]
            self.assertEqual(ids[0], ids[1])
            self.assertEqual(len(ids[0]), len(set(ids[0])))
            starts = {e["id"]: e for e in self.of(trace, "s", cat="gather_to_use")}
            ends = {e["id"]: e for e in self.of(trace, "f")}
            slices = {(e["pid"], e["tid"], e["ts"]): e for e in self.of(trace, "X") if e["dur"] > 0}
            for start in starts.values():
                end = ends[start["id"]]
                self.assertEqual(end["bp"], "e")
                self.assertLess(start["ts"], end["ts"])
                gather = slices[start["pid"], start["tid"], start["ts"]]
                use = slices[end["pid"], end["tid"], end["ts"]]
                self.assertIn("AllGather", gather["name"])
                self.assertEqual(gather["args"]["unit"], use["args"]["unit"])
                self.assertGreaterEqual(use["ts"], gather["ts"] + gather["dur"] - 1e-6)
                flows += 1
        self.assertGreater(flows, 50)

    def test_collectives_have_the_names_and_arguments_of_the_profiler(self):
        for trace in self.traces:
            sequences = collections.defaultdict(list)
            for kernel in self.of(trace, "X", cat="kernel"):
                args = kernel["args"]
                if not kernel["name"].startswith("nccl"):
                    self.assertFalse(COLLECTIVE_ARGS & args.keys())
                    continue
                self.assertRegex(kernel["name"], KERNEL)
                self.assertLessEqual(COLLECTIVE_ARGS, args.keys())
                parts = {"allreduce": (1, 1), "_allgather_base": (args["Group size"], 1),
                         "_reduce_scatter_base": (1, args["Group size"])}[args["Collective name"]]
                width = {"Float": 4, "BFloat16": 2, "Half": 2}[args["dtype"]]
                self.assertEqual(args["In msg nelems"] * parts[0] * width, args["buffer_bytes"])
                self.assertEqual(args["Out msg nelems"] * parts[1] * width, args["buffer_bytes"])
                self.assertEqual(len(json.loads(args["Process Group Ranks"])), args["Group size"])
                self.assertIn(kernel["pid"], json.loads(args["Process Group Ranks"]))
                known = {g["pg_name"]: g["ranks"] for g in trace["distributedInfo"]["pg_config"]}
                self.assertEqual(known[args["Process Group Name"]], json.loads(args["Process Group Ranks"]))
                sequences[kernel["pid"], kernel["tid"], args["Process Group Name"]].append(args["Seq"])
            for sequence in sequences.values():
                self.assertEqual(sequence, list(range(len(sequence))))

    def test_every_kernel_has_a_launch_within_an_operator_within_a_step(self):
        """What HolisticTraceAnalysis needs to give a kernel its step (hta/common/trace_collection.py): a call on the host with the
        same correlation, which begins within a ProfilerStep of the host's; and TensorBoard's plugin for its operator: an id that
        operator and call have in common.
        """
        for trace, result in zip(self.traces, self.results):
            for rank in range(4):
                row = [e for e in self.of(trace, "X", pid=HOST + rank)]
                self.assertEqual({e["cat"] for e in row}, {"user_annotation", "cpu_op", "cuda_runtime"})
                self.assertFalse([e for e in row if "stream" in e["args"]])  # that is how a row of the host is told from a GPU's
                steps = [e for e in row if e["cat"] == "user_annotation"]
                self.assertEqual([e["name"] for e in steps], [f"ProfilerStep#{k}" for k in range(result["steps"])])
                operators = {e["args"]["External id"]: e for e in row if e["cat"] == "cpu_op"}
                launches = {e["args"]["correlation"]: e for e in row if "correlation" in e["args"]}
                kernels = [e for e in self.of(trace, "X", pid=rank) if e["cat"] in ("kernel", "gpu_memset")]
                self.assertEqual(sorted(launches), sorted(e["args"]["correlation"] for e in kernels))
                for kernel in kernels:
                    launch = launches[kernel["args"]["correlation"]]
                    operator = operators[launch["args"]["External id"]]
                    self.assertLessEqual(launch["ts"], kernel["ts"])
                    self.assertLessEqual(operator["ts"], launch["ts"])
                    self.assertLessEqual(launch["ts"] + launch["dur"], operator["ts"] + operator["dur"] + 1e-6)
                    if kernel["name"].startswith("nccl"):
                        self.assertTrue(operator["name"].startswith("nccl:"))
                    if kernel["args"]["step"] >= 0:
                        step = steps[kernel["args"]["step"]]
                        self.assertTrue(step["ts"] <= launch["ts"] < step["ts"] + step["dur"], (step, launch))
            arrows = {e["id"]: e for e in self.of(trace, "s", cat="ac2g")}
            heads = {e["id"]: e for e in self.of(trace, "f", cat="ac2g")}
            self.assertEqual(arrows.keys(), heads.keys())
            kernels = {(e["pid"], e["tid"], e["ts"]) for e in self.of(trace, "X") if "correlation" in e["args"]}
            for ends in (arrows, heads):
                self.assertLessEqual({(e["pid"], e["tid"], e["ts"]) for e in ends.values()}, kernels)

    def test_bytes_are_the_same_in_trace_and_csv_and_summary(self):
        for trace, result, folder in zip(self.traces, self.results, self.folders):
            csv = runs.rows(folder / "collectives.csv")
            in_steps = [e["args"] for e in self.of(trace, "X", cat="kernel") if "sent_bytes" in e["args"]]
            for payload, figure in (("data", "bytes_sent"), ("control", "control_bytes")):
                in_csv, in_trace, steadily = collections.Counter(), collections.Counter(), collections.Counter()
                for row in csv:
                    if row["payload"] == payload:
                        in_csv[int(row["rank"])] += int(row["sent_bytes"])
                        steadily[int(row["rank"])] += int(row["sent_bytes"]) * (int(row["step"]) >= result["first_steady_step"])
                for args in in_steps:
                    if args.get("payload", "data") == payload:
                        in_trace[args["device"]] += args["sent_bytes"]
                self.assertEqual(in_csv, in_trace)
                per_step = result[f"{figure}_per_rank_per_step"]
                steps = result["steps"] - result["first_steady_step"]
                self.assertEqual(max(steadily.values(), default=0), round(per_step * steps), (result["scheme"], figure))

    def test_links_carried_what_the_collectives_sent(self):
        for folder in self.folders:
            sent = sum(int(row["sent_bytes"]) for row in runs.rows(folder / "collectives.csv"))
            self.assertGreaterEqual(sum(float(row["bytes"]) for row in runs.rows(folder / "links.csv")), sent)

    def test_peaks_are_the_same_in_trace_and_csvs_and_summary(self):
        for trace, result, folder in zip(self.traces, self.results, self.folders):
            peak = result["peak_bytes"]
            self.assertEqual(max(e["args"]["total"] for e in self.of(trace, "C", name="memory (bytes)")), peak)
            self.assertEqual(max(int(row["held_bytes"]) for row in runs.rows(folder / "memory.csv")), peak)
            by_band = runs.rows(folder / "memory_by_band.csv")
            top = max(by_band, key=lambda row: int(row["total_bytes"]))
            self.assertEqual(int(top["total_bytes"]), peak)
            held = {name[:-len("_bytes")]: int(top[name]) for name in top if name.endswith("_bytes") and int(top[name])}
            del held["total"]
            self.assertEqual(held, result["peak_composition"])

    def test_seconds_are_the_same_in_trace_and_csvs_and_summary(self):
        digit = 1e-9  # the trace's last digit
        for trace, result, folder in zip(self.traces, self.results, self.folders):
            steps, compute, exposed, csv_compute = [], [], [], []
            spans = runs.rows(folder / "spans.csv")
            for rank in range(4):
                of_rank = self.of(trace, "X", pid=rank)
                marks = [e for e in of_rank if e["name"].startswith("ProfilerStep#")]
                self.assertEqual(len(marks), result["steps"])
                marks = marks[result["first_steady_step"]:]
                first, last = marks[0]["ts"] * 1e-6, (marks[-1]["ts"] + marks[-1]["dur"]) * 1e-6
                steps.append((last - first) / len(marks))
                inside = [(max(first, e["ts"] * 1e-6), min(last, (e["ts"] + e["dur"]) * 1e-6), "Seq" in e["args"])
                          for e in of_rank if e["cat"] != "gpu_user_annotation"]
                ops = covered((b, e) for b, e, moves in inside if not moves and e > b)
                compute.append(ops / len(marks))
                exposed.append((covered((b, e) for b, e, _ in inside if e > b) - ops) / len(marks))
                collectives = {"all_reduce", "all_gather", "reduce_scatter"}
                csv_compute.append(covered((float(s["begin_seconds"]), float(s["end_seconds"])) for s in spans
                                           if int(s["rank"]) == rank and s["op"] not in collectives and
                                           int(s["step"]) >= result["first_steady_step"]) / len(marks))
            tolerance = digit * (2 + len(spans) / 4 / result["steps"])  # of each slice's two ends, half a digit
            self.assertAlmostEqual(max(steps), result["step_seconds"], delta=digit)
            self.assertAlmostEqual(max(compute), result["compute_seconds"], delta=tolerance)
            self.assertAlmostEqual(max(csv_compute), result["compute_seconds"], delta=1e-12)
            self.assertAlmostEqual(max(exposed), result["exposed_comm_seconds"], delta=2 * tolerance)
            table = [row for row in runs.rows(folder.parent / "steps.csv") if row["scheme"] == result["scheme"]]
            table = table[result["first_steady_step"]:]
            seconds = float(table[-1]["end_seconds"]) - float(table[0]["begin_seconds"])
            self.assertAlmostEqual(seconds / len(table), result["step_seconds"], delta=1e-12 + digit)

    def test_a_trace_per_rank_in_gzip_has_the_same_events(self):
        folder = f"{self.place.name}/per_rank"
        runs.os.mkdir(folder)
        out, _ = runs.run(folder, runs.TEXTBOOK, "--ranks", "0,2-3", "--trace-per-rank", "--gzip", "--set", "schemes=[zero3]")
        files = sorted((out / "zero3/traces").iterdir())
        self.assertEqual([f.name for f in files], [f"rank-{r}.pt.trace.json.gz" for r in (0, 2, 3)])
        self.assertFalse((out / "zero3/trace.json").exists())
        whole = next(t for t in self.traces if t["traceName"] == "zero3")
        for rank, file in zip((0, 2, 3), files):
            trace = json.loads(gzip.decompress(file.read_bytes()))
            self.assertEqual(trace["distributedInfo"]["rank"], rank)
            ids = ({"id"} if "id" in e else set() for e in trace["traceEvents"])
            self.assertEqual(sum(map(len, ids)) % 2, 0)
            numbers = {"id", "correlation", "External id"}  # counted file by file

            def strip(event):
                return {k: strip(v) if k == "args" else v for k, v in event.items() if k not in numbers}

            self.assertEqual([strip(e) for e in trace["traceEvents"]],
                             [strip(e) for e in whole["traceEvents"] if e["pid"] in (rank, HOST + rank)])
        self.assertEqual({row["rank"] for row in runs.rows(out / "zero3/spans.csv")}, {"0", "2", "3"})

    def test_two_runs_write_the_same_bytes(self):
        contents = []
        for name in ("once", "again"):
            folder = f"{self.place.name}/{name}"
            runs.os.mkdir(folder)
            out, _ = runs.run(folder, runs.SYSTEMS, "--gzip")
            contents.append({f.relative_to(out): f.read_bytes() for f in out.rglob("*") if f.is_file()})
        self.assertEqual(contents[0].keys(), contents[1].keys())
        for file in contents[0]:
            self.assertEqual(contents[0][file], contents[1][file], file)


if __name__ == "__main__":
    unittest.main()
