#!/usr/bin/env python3
"""Plug-ins, as somebody outside of the project makes them: compiled with `ringside plugin --cflags`, then used.

The environment names the program (RINGSIDE_PROGRAM), CMake (RINGSIDE_CMAKE) and the compiler that built the program
(RINGSIDE_CXX).
"""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "experiments/plugins"
PROGRAM = os.environ["RINGSIDE_PROGRAM"]
CMAKE = os.environ.get("RINGSIDE_CMAKE", "cmake")
CXX = os.environ.get("RINGSIDE_CXX", "c++")
SMALL = ["--set", "model.kind=mlp", "--set", "model.width=16", "--set", "model.context=8", "--set", "model.layers=1",
         "--set", "train.steps=6", "--set", "train.warmup=1", "--set", "train.global_batch=8",
         "--set", "compare.all_cores=false", "--set", "compare.attempts=1", "--set", "compare.repeats=1"]
SIMULATES = (pathlib.Path(PROGRAM).parent / "libringside_simgrid.so").exists()


class Plugins(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        (cls.folder / "text.txt").write_text("ring tree shard bucket rank " * 400)
        (cls.folder / "trial.toml").write_text('[data]\npath = "text.txt"\n')
        sources = [EXAMPLES / f"{name}.cc" for name in ("my_topk", "my_onebit", "my_diloco")]
        sources += [HERE / f"{name}.cc" for name in ("forgetful", "others")]
        cls.built = cls.build(sources)

    @classmethod
    def run_in_folder(cls, words: list, seconds: float = 300) -> subprocess.CompletedProcess:
        return subprocess.run(list(map(str, words)), cwd=cls.folder, capture_output=True, text=True, timeout=seconds,
                              check=False)

    @classmethod
    def build(cls, sources: list) -> dict:
        """Compiles each source to a plug-in; two at a time. Returns their paths by name."""
        flags = cls.run_in_folder([PROGRAM, "plugin", "--cflags"]).stdout.split()
        waiting, running, out = list(sources), [], {}
        while waiting or running:
            while waiting and len(running) < 2:
                source = waiting.pop(0)
                out[source.stem] = cls.folder / f"{source.stem}.so"
                command = [CXX, *flags, "-Wall", "-Wextra", "-Werror", str(source), "-o", str(out[source.stem])]
                running.append((source, subprocess.Popen(command, stderr=subprocess.PIPE, text=True)))
            source, process = running.pop(0)
            _, errors = process.communicate(timeout=300)
            if process.returncode != 0:
                raise AssertionError(f"{source} does not compile\n{errors}")
        return out

    def ok(self, words: list) -> str:
        ended = self.run_in_folder(words)
        self.assertEqual(ended.returncode, 0, f"{words}\n{ended.stdout}\n{ended.stderr}")
        return ended.stdout

    def refused(self, words: list, status: int = 2) -> str:
        ended = self.run_in_folder(words)
        self.assertEqual(ended.returncode, status, f"{words}\n{ended.stdout}\n{ended.stderr}")
        self.assertEqual(len(ended.stderr.strip().splitlines()), 1, ended.stderr)
        return ended.stderr

    def rows(self, name: str) -> list:
        lines = (self.folder / name / "trial/rows.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def compare(self, plugin: str, results: str, *words: str) -> str:
        return self.ok([PROGRAM, "compare", "trial.toml", *SMALL, "--results", results, "--plugin", self.built[plugin],
                        *words])

    # ---- the same algorithms as those of the program

    def assert_equal_runs(self, results: str, own: str, of_program: str):
        by_label = {row["label"]: row for row in self.rows(results) if row["purpose"] == "asked"}
        mine, theirs = by_label[own], by_label[of_program]
        self.assertEqual(mine["loss"], theirs["loss"])
        self.assertEqual(mine["parameter_hashes"], theirs["parameter_hashes"])
        self.assertEqual(mine["bytes_minimum_per_step"], theirs["bytes_minimum_per_step"])
        self.assertEqual([rank["bytes_sent_per_step"] for rank in mine["ranks"]],
                         [rank["bytes_sent_per_step"] for rank in theirs["ranks"]])

    def test_a_compressor_ends_with_the_bits_of_that_of_the_program(self):
        for mine, theirs in (("my_topk", "topk"), ("my_onebit", "onebit")):
            said = self.compare(mine, mine, "--worlds", "2",
                                "--case", f"ddp: label=own, scheme.ddp.compressor={mine}, scheme.ddp.ratio=0.1",
                                "--case", f"ddp: label=theirs, scheme.ddp.compressor={theirs}, scheme.ddp.ratio=0.1")
            self.assertRegex(said, r"\| own .*bit-identical to its definition")
            if mine == "my_topk":
                self.assert_equal_runs(mine, "own", "theirs")

    def test_a_local_rule_ends_with_the_bits_of_that_of_the_program(self):
        said = self.compare("my_diloco", "my_diloco", "--worlds", "2",
                            "--case", "my_diloco: label=own, scheme.my_diloco.sync_every=2",
                            "--case", "diloco: label=theirs, scheme.diloco.sync_every=2")
        self.assertRegex(said, r"\| own .*bit-identical to its definition; claims to equal single")
        self.assert_equal_runs("my_diloco", "own", "theirs")

    def test_two_stages_end_with_the_bits_of_the_definition(self):
        said = self.compare("my_diloco", "stages", "--set", "model.layers=4", "--set", "train.micro_batch=1",
                            "--case", "my_diloco: label=own, world=4, mesh.pipeline=2, scheme.my_diloco.sync_every=2",
                            "--case", "diloco: label=theirs, world=4, mesh.pipeline=2, scheme.diloco.sync_every=2")
        self.assertRegex(said, r"\| own .*bit-identical to its definition")
        self.assert_equal_runs("stages", "own", "theirs")
        said = self.compare("my_topk", "topk_stages", "--set", "model.layers=4", "--set", "train.micro_batch=1", "--case",
                            "ddp: label=own, world=4, mesh.pipeline=2, scheme.ddp.compressor=my_topk")
        self.assertRegex(said, r"\| own .*bit-identical to its definition")

    def test_the_suite_as_a_command_finds_nothing_wrong_with_them(self):
        for mine, words in (("my_diloco", ["my_diloco"]),
                            ("my_topk", ["ddp", "--set", "scheme.ddp.compressor=my_topk"]),
                            ("my_onebit", ["ddp", "--set", "scheme.ddp.compressor=my_onebit"])):
            said = self.ok([PROGRAM, "check-scheme", *words, "--worlds", "1,2", "--plugin", self.built[mine]])
            self.assertRegex(said, r": \d\d checks, 0 wrong")
            self.assertRegex(said, r" at world 2: 1\d checks, all right\n")
            self.assertNotIn("WRONG", said)
            self.assertEqual("Left out: simulated runs" in said, not SIMULATES, said)

    # ---- what is wrong is found, by name

    def test_a_scheme_that_is_not_its_definition_is_named(self):
        ended = self.run_in_folder([PROGRAM, "check-scheme", "lazy", "--worlds", "2", "--plugin",
                                    self.built["forgetful"]])
        self.assertEqual(ended.returncode, 1)
        self.assertRegex(ended.stdout, r"gpt: a scheme ends with the bits of its definition, but\n"
                                       r" +the parameters of replica 0 differ from the definition's")

    def test_a_mistake_that_the_definition_shares_is_found_by_an_identity(self):
        ended = self.run_in_folder([PROGRAM, "check-scheme", "shrinks", "--worlds", "2", "--plugin",
                                    self.built["forgetful"]])
        self.assertEqual(ended.returncode, 1)
        self.assertRegex(ended.stdout, r"shrinks at world 2: 16 checks, 1 WRONG\n  identities: .*\n"
                                       r" +it must equal single \(with optimizer.kind=sgd\): the loss of step 2 is")

    def test_a_rule_that_forgets_its_state_is_named(self):
        ended = self.run_in_folder([PROGRAM, "check-scheme", "amnesic", "--worlds", "2", "--plugin",
                                    self.built["forgetful"]])
        self.assertEqual(ended.returncode, 1)
        self.assertRegex(ended.stdout, r"resumption: a scheme goes on from a checkpoint with the bits of the unbroken "
                                       r"run, but\n +from the checkpoint after step 1: the parameters of replica 0 differ")

    def test_a_mistake_in_a_compressor_is_found_by_its_identity(self):
        ended = self.run_in_folder([PROGRAM, "check-scheme", "ddp", "--worlds", "2", "--plugin", self.built["forgetful"],
                                    "--set", "scheme.ddp.compressor=doubles"])
        self.assertEqual(ended.returncode, 1)
        self.assertRegex(ended.stdout, r" 1 WRONG\n  identities: .*\n +it must equal single "
                                       r"\(with scheme.ddp.compressor=doubles, scheme.ddp.memory=none\): the loss of step 2")

    def test_a_scheme_that_crashes_is_named(self):
        ended = self.run_in_folder([PROGRAM, "check-scheme", "crashes", "--worlds", "1", "--plugin",
                                    self.built["forgetful"]])
        self.assertEqual(ended.returncode, 1)
        self.assertRegex(ended.stdout, r"gpt: .*\n +its process was killed by signal 11")

    # ---- what a run keeps of its plug-ins

    def test_a_row_names_the_plug_in_and_another_one_is_refused(self):
        plugin = self.folder / "changing.so"
        shutil.copy(self.built["my_diloco"], plugin)
        words = [PROGRAM, "compare", "trial.toml", *SMALL, "--results", "kept", "--worlds", "2", "--schemes",
                 "my_diloco", "--plugin", plugin]
        said = self.ok(words)
        self.assertRegex(said, rf"Plug-ins: {plugin} \(hash [0-9a-f]{{32}}\)")
        rows = self.rows("kept")
        for row in rows:
            self.assertEqual([one["file"] for one in row["plugins"]], [str(plugin)])
            self.assertRegex(row["plugins"][0]["hash"], "^[0-9a-f]{32}$")
        again = self.ok([*words, "--resume"])
        self.assertEqual(len(self.rows("kept")), len(rows), again)
        with plugin.open("ab") as file:
            file.write(b"\0")
        self.assertIn("was made with plugins.0.hash", self.refused([*words, "--resume"]))

    def test_results_are_read_with_the_plug_in_alone(self):
        self.compare("my_diloco", "read", "--worlds", "2", "--schemes", "my_diloco")
        self.ok([PROGRAM, "report", "read/trial", "--plugin", self.built["my_diloco"]])
        without = self.run_in_folder([PROGRAM, "report", "read/trial"])
        self.assertEqual(without.returncode, 2)
        self.assertIn(f"give --plugin {self.built['my_diloco']}", without.stderr)

    def test_the_order_of_plug_ins_does_not_matter(self):
        listed = [self.ok([PROGRAM, "list", "schemes", "--plugin", self.built[first], "--plugin", self.built[second]])
                  for first, second in (("my_diloco", "others"), ("others", "my_diloco"))]
        self.assertEqual(*listed)
        self.assertIn("digits = 2", listed[0])

    def test_an_experiment_names_plug_ins_itself(self):
        (self.folder / "own.toml").write_text(
            'name = "trial"\n[plugins]\nfiles = ["my_diloco.so"]\n[data]\npath = "text.txt"\n'
            '[compare]\nschemes = ["my_diloco"]\nworlds = [2]\n[scheme.my_diloco]\nsync_every = 3\n')
        said = self.ok([PROGRAM, "compare", "own.toml", *SMALL, "--results", "own"])
        self.assertIn("bit-identical", said)
        self.assertIn("--plugin FILE", self.refused([PROGRAM, "compare", "trial.toml", "--set", "plugins.files=a.so"]))

    def test_optimizers_models_data_and_options_of_compressors(self):
        plain = ["--worlds", "2", "--schemes", "single,ddp", "--set", "data.kind=my_tokens", "--set", "data.path=[]",
                 "--set", "optimizer.weight_decay=0"]
        said = self.compare("others", "half", *plain, "--set", "model.kind=my_mlp", "--set", "optimizer.kind=half_sgd",
                            "--set", "optimizer.lr=0.2")
        self.assertRegex(said, r"\| ddp .*bit-identical to single")
        self.compare("others", "whole", *plain, "--set", "optimizer.kind=sgd", "--set", "optimizer.momentum=0",
                     "--set", "optimizer.lr=0.1")
        self.assertEqual([row["loss"] for row in self.rows("half")], [row["loss"] for row in self.rows("whole")])
        with_digits = ["--worlds", "2", "--set", "scheme.ddp.compressor=rounded", "--case",
                       "ddp: label=few, scheme.ddp.digits=1", "--case", "ddp: label=many, scheme.ddp.digits=7"]
        said = self.compare("others", "digits", *with_digits)
        self.assertRegex(said, r"\| few .*bit-identical to its definition")
        few, many = ({row["label"]: row["loss"] for row in self.rows("digits")}[label] for label in ("few", "many"))
        self.assertNotEqual(few, many)
        self.assertIn("digits", self.refused([PROGRAM, "compare", "trial.toml", *SMALL, "--plugin", self.built["others"],
                                              "--set", "scheme.ddp.digits=0"]))

    def test_a_model_that_no_file_of_weights_can_hold_is_refused_before_it_trains(self):
        words = [PROGRAM, "train", "trial.toml", "--plugin", self.built["others"], "--scheme", "single", "--world", "1",
                 "--set", "train.steps=3", "--set", "train.warmup=1", "--save", "kept.safetensors"]
        self.assertIn("files of weights cannot hold a model of this kind",
                      self.refused([*words, "--set", "model.kind=nameless"]))
        self.assertFalse((self.folder / "kept.safetensors").exists())
        self.ok([*words, "--set", "model.kind=my_mlp"])
        self.assertTrue((self.folder / "kept.safetensors").exists())

    def test_several_processes_of_a_job_load_it(self):
        with socket.socket() as port:
            port.bind(("127.0.0.1", 0))
            number = port.getsockname()[1]
        words = [PROGRAM, "compare", "job.toml", *SMALL, "--results", "job"]
        (self.folder / "job.toml").write_text(
            'name = "trial"\n[plugins]\nfiles = ["my_diloco.so"]\n[data]\npath = "text.txt"\n'
            '[compare]\nschemes = ["my_diloco"]\nworlds = [2]\n')
        processes = [subprocess.Popen(list(map(str, words)), cwd=self.folder, text=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE,
                                      env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2",
                                           "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(number)})
                     for rank in (0, 1)]
        said = [process.communicate(timeout=120) for process in processes]
        self.assertEqual([process.returncode for process in processes], [0, 0], said)
        self.assertRegex(said[0][0], r"\| my_diloco .*bit-identical")

    @unittest.skipUnless(SIMULATES, "this build has no simulated devices")
    def test_a_simulated_cluster_runs_it(self):
        cluster = HERE.parents[1] / "experiments/clusters/dgx-1-v100.toml"
        said = self.compare("my_diloco", "simulated", "--worlds", "2", "--schemes", "my_diloco",
                            "--set", "device.kind=sim", "--set", f"device.cluster={cluster}")
        self.assertRegex(said, r"\| my_diloco +\| +2 \|")

    # ---- files that are refused

    def test_files_that_are_no_plug_ins_of_this_program(self):
        self.assertIn("no such file", self.refused([PROGRAM, "list", "--plugin", "absent.so"]))
        (self.folder / "text.so").write_text("text")
        self.assertIn("text.so", self.refused([PROGRAM, "list", "--plugin", "text.so"]))
        for name, source, said in (
                ("other", "int other(void) { return 1; }", "RINGSIDE_PLUGIN"),
                ("older", 'const char* ringside_plugin_stamp(void) { return "headers 0, compiler 1"; }',
                 "(headers 0, compiler 1) than this one (headers ")):
            (self.folder / f"{name}.c").write_text(source)
            subprocess.run(["cc", "-shared", "-fPIC", f"{name}.c", "-o", f"{name}.so"], cwd=self.folder, check=True)
            self.assertIn(said, self.refused([PROGRAM, "list", "--plugin", f"{name}.so"]))

    def test_a_name_that_is_taken(self):
        shutil.copy(self.built["my_diloco"], self.folder / "twice.so")
        self.assertIn("there is a scheme 'my_diloco' already", self.refused(
            [PROGRAM, "list", "--plugin", self.built["my_diloco"], "--plugin", "twice.so"]))

    # ---- `ringside new scheme`

    def test_new_schemes_build_and_pass_at_once(self):
        for kind in ("local", "compressor", "gradients"):
            folder = self.folder / f"begun_{kind}"
            self.ok([PROGRAM, "new", "scheme", folder.name, "--kind", kind])
            self.ok([CMAKE, "-S", folder, "-B", folder / "build", f"-DCMAKE_CXX_COMPILER={CXX}",
                     "-DCMAKE_CXX_FLAGS=-Werror"])
            self.ok([CMAKE, "--build", folder / "build"])
            tested = self.ok(["ctest", "--test-dir", folder / "build", "--output-on-failure"])
            self.assertIn("100% tests passed", tested)
            said = self.ok([PROGRAM, "compare", folder / "experiment.toml", *SMALL, "--quick", "--results", "begun"])
            self.assertRegex(said, f"{folder.name}.*bit-identical")
            self.assertIn("exists", self.refused([PROGRAM, "new", "scheme", folder.name]))

    def test_names_that_cannot_be(self):
        for name, said in (("ddp", "another"), ("topk", "another"), ("My-Scheme", "small letters")):
            self.assertIn(said, self.refused([PROGRAM, "new", "scheme", name]))
        self.assertIn("--plugin FILE", self.refused([PROGRAM, "compare", "trial.toml", "--schemes", "mine"]))


if __name__ == "__main__":
    sys.exit(0 if unittest.main(argv=sys.argv[:1], exit=False).result.wasSuccessful() else 1)
