"""Tests of the loops, without torch: `python3 -m unittest discover --start-directory workloads`."""

import json
import tempfile
import threading
import unittest
from pathlib import Path

from common import loops


class Counted:
    """A unit of work that takes no time and stops after so many."""

    def __init__(self, stop: Path | None = None, after: int = 0):
        self.runs = 0
        self.stop, self.after = stop, after

    def run_once(self) -> None:
        self.runs += 1
        if self.stop is not None and self.runs == self.after:
            self.stop.touch()


class Failing:
    def run_once(self) -> None:
        raise RuntimeError("the device is gone")


def put(folder: Path, number: int, command: dict) -> None:
    loops.write_atomically(folder / f"{number}.json", json.dumps(command))


def answer(folder: Path, number: int) -> dict:
    return json.loads((folder / f"{number}.out.json").read_text())


class Percentiles(unittest.TestCase):
    def test_interpolated_between_neighbours(self) -> None:
        self.assertEqual(loops.percentile([10, 20, 30, 40], 0.5), 25)
        self.assertEqual(loops.percentile([7], 0.99), 7)
        self.assertEqual(loops.summary([])["n"], 0)
        self.assertIsNone(loops.summary([])["p99_ns"])


class Paced(unittest.TestCase):
    def test_a_request_per_arrival_and_the_first_one_at_once(self) -> None:
        work = Counted()
        result = loops.server_loop(work, [0.001, 0.002, 5.0], 1.0)
        # At zero, 1 ms and 2 ms; the one at 5 s is beyond the end.
        self.assertEqual((work.runs, result["n"]), (3, 3))
        self.assertGreaterEqual(result["elapsed_ns"], 2_000_000)
        self.assertTrue(
            all(s <= e for s, e in zip(result["samples_ns"], result["end_to_end_ns"], strict=True))
        )


class Commands(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_one_after_another_until_told_to_quit(self) -> None:
        arrivals = self.folder / "arrivals.json"
        arrivals.write_text("[0.001, 0.002]")
        stop = self.folder / "stop"
        work = Counted(stop, after=8)
        thread = threading.Thread(target=loops.command_loop, args=(work, self.folder))
        thread.start()
        put(self.folder, 0, {"mode": "paced", "arrivals": str(arrivals), "seconds": 1.0})
        put(self.folder, 1, {"mode": "train", "seconds": 60.0, "stop": str(stop)})
        put(self.folder, 2, {"mode": "quit"})
        thread.join(timeout=10)
        self.assertFalse(thread.is_alive())
        first, second = answer(self.folder, 0), answer(self.folder, 1)
        self.assertEqual((first["n"], second["n"]), (3, 5))
        self.assertGreaterEqual(second["begin_ns"], first["begin_ns"] + first["elapsed_ns"])

    def test_a_failure_is_told_and_ends_the_program(self) -> None:
        put(self.folder, 0, {"mode": "closed", "seconds": 1.0})
        with self.assertRaises(RuntimeError):
            loops.command_loop(Failing(), self.folder)
        self.assertEqual(answer(self.folder, 0), {"error": "RuntimeError: the device is gone"})
        put(self.folder, 0, {"mode": "dance", "seconds": 1.0})
        with self.assertRaises(ValueError):
            loops.command_loop(Counted(), self.folder)
        self.assertIn("known are closed, paced and train", answer(self.folder, 0)["error"])


if __name__ == "__main__":
    unittest.main()
