"""memory_snapshot.pickle as PyTorch's memory viewer reads it: its parts agree, and its events lead to the peaks of the summary."""
import collections
import pickle
import pickletools
import tempfile
import unittest

import runs

# What the viewer's own reader knows (pytorch/pytorch, torch/utils/viz/MemoryViz.js).
VIEWER_READS = {"PROTO", "EMPTY_DICT", "EMPTY_LIST", "MARK", "SETITEMS", "APPEND", "BININT", "BININT1", "BININT2", "LONG1",
                "SHORT_BINUNICODE", "BINUNICODE", "MEMOIZE", "BINGET", "LONG_BINGET", "NEWTRUE", "NEWFALSE", "TUPLE2", "STOP"}


class Device:
    """Memory as the events of one device make it, with every rule that the events have to keep."""

    def __init__(self, test, events):
        self.segments, self.blocks, self.freed = {}, {}, set()
        self.reserved = self.allocated = self.reserved_peak = self.allocated_peak = 0
        last = 0
        for event in events:
            test.assertGreaterEqual(event["time_us"], last)
            last = event["time_us"]
            getattr(self, event["action"])(test, event["addr"], event["size"], event)
            self.reserved_peak = max(self.reserved_peak, self.reserved)
            self.allocated_peak = max(self.allocated_peak, self.allocated)

    def segment_alloc(self, test, addr, size, event):
        for begin, (length, _) in self.segments.items():
            test.assertTrue(addr + size <= begin or begin + length <= addr, "segments overlap")
        self.segments[addr] = size, event["stream"]
        self.reserved += size

    segment_map = segment_alloc

    def segment_free(self, test, addr, size, event):
        test.assertEqual(self.segments.pop(addr), (size, event["stream"]))
        test.assertFalse([b for b in self.blocks if addr <= b < addr + size], "a segment goes with blocks in it")
        self.reserved -= size

    def alloc(self, test, addr, size, event):
        test.assertNotIn(addr, self.blocks)
        self.blocks[addr] = size, event["stream"], event["frames"]
        self.allocated += size

    def free_requested(self, test, addr, size, event):
        test.assertEqual(self.blocks[addr], (size, event["stream"], event["frames"]))
        test.assertNotIn(addr, self.freed)
        self.freed.add(addr)

    def free_completed(self, test, addr, size, event):
        self.freed.remove(addr)
        test.assertEqual(self.blocks.pop(addr), (size, event["stream"], event["frames"]))
        self.allocated -= size


class MemorySnapshot(unittest.TestCase):
    def snapshots(self, scenario, *options):
        """Each scheme's figures, and its snapshot."""
        with tempfile.TemporaryDirectory() as folder:
            out, _ = runs.run(folder, scenario, *options)
            for result in runs.results(out):
                yield result, (out / result["scheme"] / "memory_snapshot.pickle").read_bytes()

    def check(self, snapshot, device):
        """The segments and blocks of one device against each other and its events; the device after the replay."""
        memory = Device(self, snapshot["device_traces"][device])
        segments = [s for s in snapshot["segments"] if s["device"] == device]
        mapped = collections.Counter()
        states = collections.Counter()
        for segment in segments:
            address = segment["address"]
            for block in segment["blocks"]:
                self.assertEqual(block["address"], address)
                self.assertGreater(block["size"], 0)
                self.assertLessEqual(block["requested_size"], block["size"])
                address += block["size"]
                states[block["state"]] += 1
                if block["state"] == "inactive":
                    self.assertEqual(block["frames"], [])
                    continue
                self.assertEqual(memory.blocks.pop(block["address"]),
                                 (block["requested_size"], segment["stream"], block["frames"]))
                self.assertEqual(block["state"] == "active_pending_free", block["address"] in memory.freed)
            self.assertEqual(address, segment["address"] + segment["total_size"])
            sizes = {state: sum(b["size"] for b in segment["blocks"] if b["state"] == state)
                     for state in ("active_allocated", "active_pending_free")}
            self.assertEqual(segment["allocated_size"], sizes["active_allocated"])
            self.assertEqual(segment["active_size"], sum(sizes.values()))
            self.assertEqual(segment["requested_size"], sum(b["requested_size"] for b in segment["blocks"]))
            mapped[segment["stream"]] += segment["total_size"]
        self.assertEqual(memory.blocks, {}, "a block that lies in no segment")
        held = collections.Counter()
        for size, stream in memory.segments.values():
            held[stream] += size
        self.assertEqual(mapped, held)
        return memory, states

    def test_exact_memory_replays_to_the_peak(self):
        for result, data in self.snapshots(runs.TEXTBOOK):
            snapshot = pickle.loads(data)
            self.assertEqual(len(snapshot["device_traces"]), 4)
            memories = [self.check(snapshot, device)[0] for device in range(4)]
            self.assertEqual(max(m.allocated_peak for m in memories), result["peak_bytes"])
            self.assertEqual(max(m.reserved_peak for m in memories), result["peak_bytes"])

    def test_an_emulated_allocator_replays_to_what_was_requested_and_reserved(self):
        seen = collections.Counter()
        for result, data in self.snapshots(runs.SYSTEMS):
            snapshot = pickle.loads(data)
            checked = [self.check(snapshot, device) for device in range(4)]
            self.assertEqual(max(m.allocated_peak for m, _ in checked), result["requested_peak_bytes"])
            self.assertEqual(max(m.reserved_peak for m, _ in checked), result["reserved_bytes"])
            for _, states in checked:
                seen += states
        self.assertGreater(seen["inactive"], 0)
        self.assertGreater(seen["active_allocated"], 0)

    def test_expandable_segments_are_mapped_page_by_page(self):
        options = ["--set", "memory={allocator: torch, expandable_segments: on}", "--set", "schemes=[zero3]"]
        for result, data in self.snapshots(runs.SYSTEMS, *options):
            snapshot = pickle.loads(data)
            checked = [self.check(snapshot, device)[0] for device in range(4)]
            self.assertEqual(max(m.allocated_peak for m in checked), result["requested_peak_bytes"])
            self.assertEqual(max(m.reserved_peak for m in checked), result["reserved_bytes"])
            self.assertTrue(all(s["is_expandable"] for s in snapshot["segments"]))
            self.assertFalse([e for e in snapshot["device_traces"][0] if e["action"] == "segment_alloc"])

    def test_memory_that_runs_out_is_an_event(self):
        options = ["--set", "schemes=[dp]", "--set", "prices={memory: 64MiB}",
                   "--set", "memory={allocator: torch, context: 0MiB, communicator: 0MiB}"]
        for result, data in self.snapshots(runs.SYSTEMS, *options):
            self.assertFalse(result["fits"])
            ooms = [e for e in pickle.loads(data)["device_traces"][0] if e["action"] == "oom"]
            self.assertEqual(len(ooms), 1)
            self.assertLess(ooms[0]["device_free"], 64 << 20)
            self.assertGreater(ooms[0]["size"], 0)

    def test_every_block_says_scheme_and_verb_and_unit_and_band(self):
        for result, data in self.snapshots(runs.TEXTBOOK, "--set", "schemes=[zero3]"):
            stacks = {tuple((f["filename"], f["name"]) for f in event["frames"])
                      for event in pickle.loads(data)["device_traces"][0]}
            self.assertIn((("band", "gathered"), ("unit", "layer1"), ("verb", "all_gather"), ("scheme", "zero3")), stacks)
            for stack in stacks:
                self.assertEqual([file for file, _ in stack if file != "unit"], ["band", "verb", "scheme"])

    def test_the_viewer_knows_every_opcode(self):
        for _, data in self.snapshots(runs.SYSTEMS, "--set", "schemes=[zero3]"):
            self.assertLessEqual({opcode.name for opcode, _, _ in pickletools.genops(data)}, VIEWER_READS)

    def test_only_the_chosen_ranks_are_devices(self):
        for _, data in self.snapshots(runs.TEXTBOOK, "--set", "schemes=[dp]", "--ranks", "1,3"):
            self.assertEqual([bool(t) for t in pickle.loads(data)["device_traces"]], [False, True, False, True])


if __name__ == "__main__":
    unittest.main()
