"""The Python module, from outside. PYTHONPATH names the directory that holds it (tests/python/run.sh)."""

import inspect
import itertools
import os
import pathlib
import pickle
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np

import pare

ROOT = pathlib.Path(__file__).resolve().parents[2]


def task(count=200, seed=0, image=(1, 8, 8)):
    """Two classes that the sign of the mean tells apart."""
    random = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    images = random.normal(size=(count, *image)).astype("float32") * 0.3 + (labels * 2 - 1)[:, None, None, None]
    return images.astype("float32"), labels


def net(seed=1):
    return pare.build("lenet-300-100", width=0.1, classes=2, image=[1, 8, 8], seed=seed)


class Graphs(unittest.TestCase):
    def test_tensors_are_views_that_nobody_writes_to(self):
        graph = net()
        weight = graph.tensors["ip1.weight"]
        self.assertFalse(weight.flags.writeable)
        self.assertEqual(weight.__array_interface__["data"], graph.tensors["ip1.weight"].__array_interface__["data"])
        with self.assertRaises(ValueError):
            weight[0] = 1

    def test_outlives_its_views(self):
        weight = net().tensors["ip1.weight"]
        again = net().tensors["ip1.weight"]
        np.testing.assert_array_equal(weight, again)

    def test_goes_through_onnx_and_pickle(self):
        graph = net()
        self.assertTrue(pare.verify(graph, pare.Graph.from_onnx(graph.to_onnx())))
        self.assertTrue(pare.verify(graph, pickle.loads(pickle.dumps(graph))))

    def test_takes_other_tensors(self):
        graph = net()
        other = graph.with_tensors({"ip3.bias": np.ones(2)})
        self.assertEqual(other.tensors["ip3.bias"].dtype, np.float32)
        self.assertFalse(pare.verify(graph, other))
        with self.assertRaises(pare.errors.UsageError):
            graph.with_tensors({"nothing": np.ones(2)})

    def test_says_what_it_is(self):
        graph = net()
        self.assertEqual([node["op"] for node in graph.nodes].count("Gemm"), 3)
        self.assertEqual(graph.inputs[0]["shape"][1:], (1, 8, 8))
        found = pare.inspect(graph)
        self.assertEqual(found.parameters, graph.parameters)
        self.assertEqual([group.removable > 0 for group in found.groups], [True, True, False])

    def test_reads_a_proto(self):
        try:
            import onnx
            onnx.ModelProto
        except (ImportError, AttributeError):  # Debian's test data is a package of that name without the classes
            self.skipTest("python3-onnx is not installed")
        proto = onnx.load_from_string(net().to_onnx())
        self.assertTrue(pare.verify(net(), pare.Graph.from_onnx(proto)))


    def test_results_of_ones_own_go_on_by_dlpack(self):
        graph = net()
        images, _ = task(4)
        scores = pare.run(graph, images)[0]
        again = np.from_dlpack(scores)
        self.assertEqual(again.__array_interface__["data"][0], scores.__array_interface__["data"][0])
        scores[0] = 7  # nobody else's
        self.assertFalse((pare.run(graph, images)[0][0] == 7).any())
        # What is somebody else's memory stays read-only: an input that is passed through, a constant.
        weight = graph.tensors["ip1.weight"]
        with self.assertRaises((BufferError, TypeError, RuntimeError)):
            weight.__dlpack__()


class Samples(unittest.TestCase):
    def test_all_forms_measure_the_same(self):
        images, labels = task(101)
        graph = net()
        scores = pare.run(graph, images)[0]
        expected = float((scores.argmax(1) == labels).mean())
        forms = {
            "arrays": (images, labels),
            "list of arrays": [images, labels],
            "samples": zip(images, labels),
            "list of samples": list(zip(images, labels)),
            "batches": ((images[i : i + 7], labels[i : i + 7]) for i in range(0, 101, 7)),
            "strided": (images[:, :, ::-1, ::-1][:, :, ::-1, ::-1], labels.astype("int32")),
            "big-endian": (images.astype(">f4"), labels.astype(">i8")),
            "double": (images.astype("float64"), list(labels)),
        }
        for name, samples in forms.items():
            with self.subTest(name):
                found = pare.evaluate(graph, samples)
                self.assertEqual((found["top1"], found.samples), (expected, 101))

    def test_a_data_loader_is_an_iterable(self):
        try:
            import torch
        except ImportError:
            self.skipTest("python3-torch is not installed")
        images, labels = task(64)
        data = torch.utils.data.TensorDataset(torch.from_numpy(images), torch.from_numpy(labels))
        loader = torch.utils.data.DataLoader(data, batch_size=10)
        graph = net()
        self.assertEqual(pare.evaluate(graph, loader).metrics, pare.evaluate(graph, (images, labels)).metrics)
        tensor = torch.from_numpy(images).requires_grad_()
        np.testing.assert_array_equal(pare.run(graph, tensor)[0], pare.run(graph, images)[0])
        self.assertGreater(pare.train(graph, loader, epochs=3, batch=16).history[-1]["accuracy"], 0.9)

    def test_a_stream_needs_memory_for_a_piece(self):
        """50,000 images that would take 614 MB."""
        graph = pare.build("lenet-5", image=[3, 32, 32])
        images = np.zeros((100, 3, 32, 32), "float32")
        labels = np.zeros(100, "int64")
        pare.evaluate(graph, (images, labels))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = pare.evaluate(graph, ((images + 1, labels) for _ in range(500)))
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        self.assertEqual(found.samples, 50_000)
        self.assertLess(grown, 150_000)  # kB

    def test_explains_a_stream_as_arrays(self):
        graph = pare.build("lenet-5", classes=2, image=[1, 28, 28])
        images, _ = task(7, image=(1, 28, 28))
        whole = pare.explain(graph, images, batch=3)
        for stream in (iter(images), (images[i : i + 2] for i in range(0, 7, 2))):
            streamed = pare.explain(graph, stream, batch=3)
            np.testing.assert_allclose(streamed.maps, whole.maps, atol=1e-6)
            np.testing.assert_array_equal(streamed.classes, whole.classes)
        each = [0, 1, 0, 1, 1, 0, 0]
        np.testing.assert_array_equal(pare.explain(graph, iter(images), each, batch=3).classes, each)
        for wrong in (each[:-1], [*each, 1]):
            with self.subTest(wrong), self.assertRaises(pare.errors.UsageError):
                pare.explain(graph, iter(images), wrong, batch=3)
        with self.assertRaises(pare.errors.UsageError):
            pare.explain(graph, iter(()))

    def test_learns_from_as_much_of_a_stream_as_it_needs(self):
        """Of streams that never end."""
        images, labels = task(100)
        graph = pare.train(net(), (images, labels), epochs=2, batch=16).graph
        read = 0

        def endless():
            nonlocal read
            for i in itertools.count():
                read += 1
                yield images[i % 100]

        pare.prune(graph, endless(), channels=0.5, round_to=1)
        self.assertLessEqual(read, 1024)
        read = 0
        sparse = pare.sparsify(graph, endless(), method="wanda", sparsity=0.5)
        self.assertAlmostEqual(sparse.sparsity, 0.5, places=1)
        self.assertLessEqual(read, 1024)
        read = 0
        pare.prune(graph, endless(), channels=0.5, round_to=1, samples_used=1500)
        self.assertEqual(read, 1500)

    def test_refuses_what_are_no_samples(self):
        graph = net()
        for wrong in (None, 3, "images", [[1, 2], [3]], {"a": 1}):
            with self.subTest(repr(wrong)), self.assertRaises((pare.Error, ValueError)):
                pare.evaluate(graph, wrong)
        images, labels = task(10)
        with self.assertRaises(pare.errors.UsageError):
            pare.evaluate(graph, images)  # no labels
        with self.assertRaises(pare.Error):
            pare.evaluate(graph, (images, labels[:5]))
        with self.assertRaises(ZeroDivisionError):
            pare.evaluate(graph, ((images, 1 / 0) for _ in range(3)))


class Methods(unittest.TestCase):
    def test_trains_distills_and_sparsifies(self):
        samples = task()
        trained = pare.train(net(), samples, epochs=3, batch=16, schedule="constant", lr=0.05)
        self.assertLess(trained.history[-1]["loss"], trained.history[0]["loss"])
        self.assertGreater(pare.evaluate(trained.graph, samples)["top1"], 0.95)
        student = pare.distill(net(5), trained.graph, samples, epochs=3, batch=16, alpha=0.5)
        self.assertGreater(pare.evaluate(student.graph, samples)["top1"], 0.95)
        sparse = pare.sparsify(trained.graph, samples, method="magnitude", sparsity=0.75, finetune=1, batch=16)
        self.assertAlmostEqual(sparse.sparsity, 0.75, places=2)
        zeros = sum((sparse.graph.tensors[name] == 0).sum() for name in sparse.masks)
        total = sum(mask.size for mask in sparse.masks.values())
        self.assertAlmostEqual(zeros / total, 0.75, places=2)

    def test_compresses(self):
        images, labels = task(200)
        graph = pare.train(net(), (images, labels), epochs=3, batch=16).graph
        small = pare.compress(graph, images, macs=0.4, round_to=1, runtime="pare")
        self.assertTrue(small.reached)
        self.assertEqual(small.metric, "agreement")
        self.assertLess(pare.inspect(small.graph).macs, 0.6 * pare.inspect(graph).macs)
        again = pare.prune(graph, images, widths=small.points[small.chosen].widths)
        self.assertEqual(pare.inspect(again.graph).macs, pare.inspect(small.graph).macs)
        judged = pare.compress(graph, (images, labels), max_drop=0.1, round_to=1, runtime="pare")
        self.assertEqual(judged.metric, "top1")
        self.assertLessEqual(judged.points[judged.chosen].drop, 0.1)
        with self.assertRaises(pare.errors.UsageError):
            pare.compress(graph, images)

    def test_prunes(self):
        images, labels = task(300)
        graph = pare.train(net(), (images, labels), epochs=3, batch=16).graph
        pruned = pare.prune(graph, (images, labels), channels=0.5, round_to=1)
        self.assertEqual([group.kept for group in pruned.groups][:2], [15, 5])
        self.assertLess(pruned.after.macs, pruned.before.macs)
        self.assertEqual((pruned.criterion, pruned.scope, pruned.compensate), ("obs", "uniform", "calibrated"))
        self.assertEqual(pruned.after.metrics["top1"], pare.evaluate(pruned.graph, (images, labels))["top1"])
        self.assertGreater(pruned.after.metrics["top1"], 0.9)
        streamed = pare.prune(graph, zip(images, labels), channels=0.5, round_to=1)
        self.assertTrue(pare.verify(pruned.graph, streamed.graph))
        fewer = pare.prune(graph, images, channels=0.5, round_to=1, samples_used=32)
        self.assertFalse(pare.verify(pruned.graph, fewer.graph))
        self.assertEqual(pare.prune(graph, channels=0.5, round_to=1, compensate="most-sim").after.metrics, {})
        for wrong in ({}, {"channels": 0.5, "macs": 0.5}, {"channels": 0.5, "terms": 3}, {"channels": 1.5}):
            with self.subTest(wrong), self.assertRaises(pare.errors.UsageError):
                pare.prune(graph, images, **wrong)

    def test_fuses(self):
        images, _ = task(32)
        graph = net()
        order = np.random.default_rng(0).permutation(30)
        tensors = graph.tensors
        moved = graph.with_tensors({"ip1.weight": tensors["ip1.weight"][order], "ip1.bias": tensors["ip1.bias"][order],
                                    "ip2.weight": tensors["ip2.weight"][:, order]})
        fused = pare.fuse([graph, moved])
        self.assertTrue(pare.verify(graph, fused.graph, images))
        self.assertEqual(fused.shares, [0.5, 0.5])
        self.assertEqual(fused.alignments[1][0]["plan"].shape, (30, 30))
        self.assertTrue(pare.verify(graph, pare.fuse([graph, moved], images.reshape(32, -1), align="activations").graph))

    def test_explains(self):
        graph = pare.build("lenet-5", classes=2, image=[1, 28, 28])
        images, _ = task(5, image=(1, 28, 28))
        found = pare.explain(graph, images, 1)
        self.assertEqual(found.maps.shape[0], 5)
        self.assertEqual(set(found.classes), {1})
        self.assertIsNotNone(pare.explain(graph, images, method="lrp").errors)

    def test_verifies_and_diffs(self):
        self.assertTrue(pare.verify(net(), net()))
        self.assertFalse(pare.verify(net(), net(2)))
        self.assertEqual(pare.diff(net(), net()).count("same"), len(net().nodes))
        self.assertEqual(pare.verify(net(), net(2), 2, tolerance=1e9).same, True)

    def test_a_run_goes_on_where_it_stopped(self):
        samples = task(64)
        with tempfile.TemporaryDirectory() as runs:

            def stop(what, done, all):
                if done == 6:
                    raise RuntimeError("enough")

            with self.assertRaisesRegex(RuntimeError, "enough"):
                pare.train(net(), samples, epochs=3, batch=16, runs=runs, progress=stop)
            resumed = []
            again = pare.train(net(), samples, epochs=3, batch=16, runs=runs,
                               progress=lambda what, done, all: resumed.append(done))
            self.assertGreater(resumed[0], 5)
            whole = pare.train(net(), samples, epochs=3, batch=16)
            for name, tensor in whole.graph.tensors.items():
                np.testing.assert_array_equal(again.graph.tensors[name], tensor)
            with self.assertRaises(pare.errors.FileError):  # a training of the library leaves a state, and no record
                pare.report([runs])


class Errors(unittest.TestCase):
    def test_have_a_kind_and_a_place(self):
        with self.assertRaises(ValueError) as caught:
            pare.train(net(), task(10), lr=-1)
        self.assertEqual((caught.exception.kind, caught.exception.where), ("usage", "`lr`"))
        with self.assertRaises(OSError) as caught:
            pare.load("nowhere.onnx")
        self.assertEqual(caught.exception.kind, "file")
        self.assertIn("nowhere.onnx", str(caught.exception))
        self.assertEqual(str(pickle.loads(pickle.dumps(caught.exception))), str(caught.exception))

    def test_options_are_checked(self):
        for options in ({"solver": "magic"}, {"unknown": 1}, {"regularization": "much"}, {"inputs": 1.5}):
            with self.subTest(options), self.assertRaises(pare.errors.UsageError) as caught:
                pare.fuse([net(), net()], **options)
            self.assertIn(next(iter(options)), str(caught.exception))
        with self.assertRaisesRegex(pare.Error, "`match_layers`.*`match`"):
            pare.distill(net(), net(), task(10), match_layers=["x"])

    def test_lambda_has_an_underscore(self):
        pare.sparsify(net(), task(32), method="cs", epochs=1, batch=16, lambda_=1e-6, s_init=-0.1)
        self.assertIn("lambda_ = None", pare.sparsify.__doc__)


class Threads(unittest.TestCase):
    def test_other_threads_go_on(self):
        ticks = []
        done = threading.Event()

        def tick():
            while not done.wait(0.005):
                ticks.append(1)

        other = threading.Thread(target=tick)
        other.start()
        try:
            pare.train(net(), task(4000), epochs=10, batch=16)
        finally:
            done.set()
            other.join()
        self.assertGreater(len(ticks), 5)

    def test_ctrl_c_ends_whatever_runs(self):
        calls = {
            "train": "pare.train(net(), task(2000), epochs=100000)",
            "evaluate": "pare.evaluate(big, (images, np.zeros(len(images), int)))",
            "prune": "pare.prune(big, images, macs=0.5, samples_used=2000)",
            "explain": "pare.explain(big, images, batch=8)",
        }
        for name, call in calls.items():
            code = (f"import sys; sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r}); from pare_test import *\n"
                    "big = pare.build('resnet18', image=[3, 64, 64])\n"
                    "images = np.broadcast_to(np.float32(0.1), (100_000, 3, 64, 64))\n"
                    "print('ready', flush=True)\n"
                    f"try: {call}; print('ended')\n"
                    "except KeyboardInterrupt: print('stopped')")
            with self.subTest(name), subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
                self.assertEqual(process.stdout.readline(), "ready\n")
                threading.Event().wait(2)
                process.send_signal(signal.SIGINT)
                try:
                    self.assertEqual(process.communicate(timeout=60)[0], "stopped\n")
                except subprocess.TimeoutExpired:
                    process.kill()
                    self.fail(f"{name} went on")


class Documents(unittest.TestCase):
    def test_help_lists_the_options(self):
        for name in pare.__all__:
            function = getattr(pare, name)
            if name in ("Error", "Graph", "architectures", "diff", "inspect", "report", "run", "set_threads"):
                continue
            with self.subTest(name):
                self.assertIn("Options:", function.__doc__)
                kinds = {one.kind for one in inspect.signature(function).parameters.values()}
                self.assertNotIn(inspect.Parameter.VAR_KEYWORD, kinds)
        self.assertIn("bytes = None: or fraction of the bytes of its weights", pare.prune.__doc__)
        self.assertIn("`lr`", pare.sparsify.__doc__ or "")

    def test_the_stub_is_that_of_the_module(self):
        build = os.environ.get("PARE_BUILD", "build/release")
        made = subprocess.run([sys.executable, ROOT / "scripts/python_stubs", build], check=True, capture_output=True,
                              text=True).stdout
        self.assertEqual((ROOT / "python/pare/__init__.pyi").read_text(), made)

    def test_type_checkers_know_the_options(self):
        try:
            import mypy  # noqa: F401
        except ImportError:
            self.skipTest("mypy is not installed")
        right = """import numpy as np
import pare
graph = pare.load("model.onnx")
images = np.zeros((4, 1, 8, 8))
kept: int = pare.prune(graph, images, macs=0.5, compensate="calibrated").groups[0].kept
loss: float = pare.train(graph, (images, [0, 1, 0, 1]), epochs=3, schedule="cosine").history[0]["loss"]
pare.distill(graph, graph, images, alpha=0.5, lr=0.1, progress=lambda what, done, all: None)
pare.sparsify(graph, images, method="obs", sparsity=0.5, pattern="2:4")
pare.scan_quantization(graph, images, weights="int4")
"""
        wrong = """import pare
graph = pare.load("model.onnx")
pare.prune(graph, mac=0.5)
pare.train(graph, None, epoch=3)
pare.train(graph, None, schedule="sometimes")
pare.distill(graph, graph, None, lr="much")
pare.quantize(graph, weights="int5")
"""
        with tempfile.TemporaryDirectory() as directory:
            found = {}
            for name, text in (("right", right), ("wrong", wrong)):
                path = pathlib.Path(directory, f"{name}.py")
                path.write_text(text)
                run = subprocess.run([sys.executable, "-m", "mypy", "--enable-incomplete-feature=Unpack", path.name],
                                     cwd=directory, capture_output=True, text=True,
                                     env={**os.environ, "MYPYPATH": str(pathlib.Path(pare.__file__).parents[1])})
                found[name] = run.stdout
        self.assertIn("no issues found", found["right"], found["right"])
        for line in range(3, 8):
            self.assertIn(f"wrong.py:{line}: error", found["wrong"])

    def test_examples_run(self):
        for page in ("README.md", "docs/python.md"):
            blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)
            self.assertTrue(blocks)
            with self.subTest(page), tempfile.TemporaryDirectory() as directory:
                before = os.getcwd()
                os.chdir(directory)
                try:
                    pare.build("lenet-5").save("model.onnx")
                    np.save("images.npy", np.random.default_rng(0).normal(size=(64, 1, 28, 28)).astype("float32"))
                    np.save("labels.npy", np.arange(64) % 10)
                    exec(compile("\n".join(blocks), page, "exec"), {})
                finally:
                    os.chdir(before)


if __name__ == "__main__":
    unittest.main()
