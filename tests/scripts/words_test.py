"""Every command in docs and in the READMEs is one that the program takes.

A command is an indented line that begins with ringside, build/ringside, or a script, in README.md, CONTRIBUTING.md, docs,
and the pages of the top-level folders. By default a command that is done at once runs as it stands; one that would train,
measure or simulate is run with a place for its results that cannot be written: the program then checks file, keys,
cases, plan and data, and ends before the first run. With RINGSIDE_WORDS=run (the label `long`) such commands really
run, with two steps and one repeat. Files of the reader's own (mine.toml) are made of what the page shows of them.
"""

import concurrent.futures
import functools
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("RINGSIDE_PROGRAM", str(ROOT / "build/ringside"))
RUNS = os.environ.get("RINGSIDE_WORDS") == "run"
FOLDERS = ("docs", "core", "ps", "peer", "experiments", "tests", "scripts", "results")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "experiments/python/README.md",
         ROOT / "results/gpu/README.md", ROOT / "tests/hosts/README.md", *sorted((ROOT / "docs").glob("*/*.md")),
         *(page for folder in FOLDERS for page in sorted((ROOT / folder).glob("*.md")))]
FIRST_PAGE = {"docs": "index.md"}  # of a folder; else README.md
NOWHERE = "/dev/null/nowhere"  # nothing can be written there
AT_ONCE = {"list", "doctor", "keys", "schedule"}
OF_RESULTS = {"report", "explain", "watch", "diff", "trace", "checkpoint"}  # they look at folders that the reader has
OF_HOSTS = {"launch": ("--hosts", "--ssh")}  # `compare`, but for options that need hosts
OF_PLUGINS = {"new", "check-scheme", "--plugin", "experiment.toml"}  # words of what tests/plugins/plugins_test.py runs
OF_A_FILE = {"compare", "train", "validate", "reproduce", "advise", "calibrate"}

# What a command needs that no test has, by a word of it: then its file is looked at with other data, or not at all.
PLACEHOLDERS = {"data.path=tinyshakespeare.txt": "data.path=text.txt", "data.path=DIR": "data.kind=synthetic-images",
                "device.kind=cuda": "device.kind=cpu",
                "compare experiments/gpu/resnet-50.toml": "compare experiments/gpu/resnet-50.toml --set device.kind=cpu",
                "train.initial_weights=model.safetensors": "train.seed=1",
                "single,all_at_once,ddp": "single,ddp"}  # docs/extending.md adds this scheme
NOT_RUN = {"doctor": "says what is missing", "DMLC_ROLE": "waits for processes on other hosts",
           "device.kind=cuda": "needs a GPU", "experiments/gpu/resnet-50.toml": "needs a GPU",
           "./driver": "the reader's own program", "experiments/measured/peers.toml": "needs PyTorch",
           "experiments/measured/own-pytorch.toml": "needs PyTorch",
           "new scheme": "see OF_PLUGINS", "check-scheme": "see OF_PLUGINS", "--plugin": "see OF_PLUGINS",
           "experiment.toml": "see OF_PLUGINS", "mpich": "needs other libraries", "installed": "takes a minute", "openmpi": "needs other libraries",
           "results/dgx-a100-fitted.toml": "made by another command", "reproduce all": "takes minutes",
           "experiments/published/validate/*.toml": "takes minutes", "--world 1024": "takes a minute, and 4 GB",
           "calibrate": "takes a minute", "bench": "takes a minute"}
ENDS = {"diff": {0, 3}}  # exit statuses of commands that are all right, beside 0


def commands_of(text: str) -> list[str]:
    """The commands in the indented blocks and the fenced blocks of a page, each on one line."""
    lines, fenced, found = text.replace("\\\n", " ").split("\n"), False, []
    before = ""
    for line in lines:
        if line.startswith("```"):
            fenced = not fenced
        if fenced or (line.startswith("    ") and (before == "" or before.startswith("    "))):
            command = re.sub(r"\s+#\s.*$", "", line.strip().removeprefix("$ ")).removesuffix("&").strip()
            if re.match(r"(\w+=\S+ )*(build/)?ringside |scripts/[\w-]|\.ci/|(ctest|cmake) ", command):
                found.append(re.sub(r"\s+", " ", command))
        before = line
    return found


def all_commands() -> list[tuple[str, str]]:
    return [(page.relative_to(ROOT).as_posix(), command) for page in PAGES for command in commands_of(page.read_text())]


def words_of(command: str, folder: pathlib.Path) -> list[str]:
    """The words after the shell has read them, with its patterns and braces, in the folder."""
    shown = subprocess.run(["bash", "-c", f"printf '%s\\n' {command}"], cwd=folder, capture_output=True, text=True,
                           check=True)
    return shown.stdout.splitlines()


@functools.cache
def anchors_of(page: pathlib.Path) -> set[str]:
    """The anchors that links to headings of a page have."""
    return {re.sub(r"[^\w -]", "", heading.strip().lower()).replace(" ", "-")
            for heading in re.findall(r"(?m)^#+ (.*)$", page.read_text())}


@functools.cache
def help_of(command: tuple[str, ...]) -> str:
    shown = subprocess.run([PROGRAM, *command, "--help"], capture_output=True, text=True, check=False)
    return shown.stdout if f"Usage: ringside {' '.join(command)}" in shown.stdout else ""


class Words(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        for name in (*FOLDERS, "README.md"):
            if name != "results":
                (cls.folder / name).symlink_to(ROOT / name)
        mine = re.search(r'\n((?:    .*\n)*    name = "mine"\n(?:    .*\n)*)',
                         (ROOT / "docs/experiments.md").read_text())
        (cls.folder / "mine.toml").write_text(re.sub(r"(?m)^    ", "", mine.group(1)))
        (cls.folder / "mine.csv").write_text("0F0,0B0\n1F0,1B0\n")
        (cls.folder / "books").mkdir()
        text = "It was the best of times, it was the worst of times.\n" * 2000
        for name in ("text.txt", "books/one.txt"):
            (cls.folder / name).write_text(text)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def run_program(self, words: list[str], seconds: float = 60) -> subprocess.CompletedProcess:
        return subprocess.run([PROGRAM, *words], cwd=self.folder, capture_output=True, text=True, timeout=seconds,
                              check=False)

    def check_options(self, words: list[str]):
        """The command, and each option of it, is one that its help names."""
        command = tuple(words[:2] if words[0] in ("bench", "new", "checkpoint", "schedule") else words[:1])
        text = help_of(command)
        self.assertTrue(text, f"no command `{' '.join(command)}`")
        for word in words:
            if word.startswith("--") and word != "--help":
                self.assertRegex(text, re.escape(word.split("=")[0]) + r"\b")

    def check_program(self, command: str):
        command = re.sub(r"^(\w+=\S+ )*(build/)?ringside ", "", command)
        for word, stand_in in PLACEHOLDERS.items():
            command = command.replace(word, stand_in)
        words = words_of(command, self.folder)
        if words[0] in ("--help", "--version"):
            self.assertEqual(self.run_program(words).returncode, 0)
            return
        self.check_options(words)
        if OF_PLUGINS & set(words):
            return
        if words[0] == "keys":
            words[1] = tempfile.mkdtemp(dir=self.folder) + "/keys"
        if words[0] in AT_ONCE:
            self.assertEqual(self.run_program(words).returncode, 0)
        elif words[0] in OF_A_FILE:
            self.check_plan(words)
        elif words[0] in OF_HOSTS:
            pairs = zip(words[1:], [words[0], *words[1:]])
            self.check_plan(["compare", *(word for word, before in pairs
                                          if not {word, before} & set(OF_HOSTS[words[0]]))])
        else:
            self.assertIn(words[0], OF_RESULTS | {"bench"}, "say in the lists above how this command is tried")

    def check_plan(self, words: list[str]):
        """The program refuses nothing of the command but the place for its results."""
        where = "--output" if words[0] == "train" else "--results"
        if where in words:
            at = words.index(where)
            words = words[:at] + words[at + 2:]
        ended = self.run_program([*words, where, NOWHERE])
        self.assertEqual(ended.returncode, 2, ended.stderr + ended.stdout)
        self.assertIn(NOWHERE.rsplit("/", 1)[0], ended.stderr)

    def check_script(self, command: str):
        """The script is there, and knows the options."""
        words = shlex.split(command)
        script = ROOT / words[0]
        self.assertTrue(os.access(script, os.X_OK), f"{words[0]} cannot be executed")
        text = script.read_text()
        for option in (word for word in words[1:] if word.startswith("--")):
            self.assertIn(option, text)

    def check(self, command: str):
        if command.startswith("scripts/run "):
            self.check_program("ringside compare " + command.removeprefix("scripts/run "))
        elif command.startswith(("scripts/", ".ci/")):
            self.check_script(command)
        elif command.startswith(("ctest ", "cmake ")):
            for preset in re.findall(r"--preset (\w+)", command):
                self.assertIn(f'"{preset}"', (ROOT / "CMakePresets.json").read_text())
        else:
            self.check_program(command)

    def in_parallel(self, check, commands):
        """Runs check(command) for all; fails with every page and command that was wrong."""
        def wrong(page_and_command):
            try:
                check(page_and_command[1])
            except (AssertionError, subprocess.SubprocessError) as error:
                return f"{page_and_command[0]}: {page_and_command[1]}\n    {error}"
            return ""

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            failed = [text for text in pool.map(wrong, commands) if text]
        self.assertFalse(failed, "\n".join(failed))

    def test_the_program_takes_every_command(self):
        commands = all_commands()
        self.assertGreater(len(commands), 60)
        pages = {page for page, _ in commands}
        self.assertEqual({folder for folder in FOLDERS
                          if f"{folder}/{FIRST_PAGE.get(folder, 'README.md')}" not in pages}, set())
        self.in_parallel(self.check, commands)

    def test_commands_of_sentences_have_a_program_or_a_test(self):
        """`ringside X` and `long_test --gtest_filter=...` within a sentence."""
        sources = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*_test.cc"))
        for page in PAGES:
            text = page.read_text()
            for name in re.findall(r"`(?:build/)?ringside ([a-z-]+)", text):
                self.assertTrue(help_of((name,)), f"{page}: no command `ringside {name}`")
            for wanted in re.findall(r"_test --gtest_filter='([^'\n]+)'", text.replace("\n", " ")):
                for part in filter(None, re.split(r"[*./]", wanted)):
                    self.assertIn(part, sources, f"{page}: no test is named {wanted}")

    def test_links_and_files_of_the_pages_are_there(self):
        for page in PAGES:
            text = re.sub(r"<!--.*?-->", "", page.read_text(), flags=re.DOTALL)
            prose = re.sub(r"(?m)^    .*$", "", text)
            for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", prose):
                file = page.parent / target if target else page
                self.assertTrue(file.exists(), f"{page}: no {target}")
                self.assertTrue(not anchor or anchor in anchors_of(file), f"{page}: no {target}#{anchor}")
            for name in re.findall(r"`((?:core|peer|ps|experiments|tests|scripts|results/reference)/[\w./-]*\w)`", text):
                there = any((ROOT / (name + ending)).exists() for ending in ("", ".h", ".cc", ".py", ".txt", ".json"))
                self.assertTrue(there or name.startswith("peer/schemes/all_at_once"), f"{page}: no {name}")

    def test_every_reference_folder_is_in_the_gallery(self):
        text = (ROOT / "results/README.md").read_text()
        entries = re.split(r"(?m)^### ", text)[1:]
        names = {entry.split("\n")[0] for entry in entries}
        self.assertEqual(names, {path.name for path in (ROOT / "results/reference").iterdir() if path.is_dir()})
        for entry in entries:
            self.assertRegex(entry, r"\n    \S", "it has no command")
            for name in re.findall(r"experiments/[\w./-]+\.toml", entry):
                self.assertTrue((ROOT / name).exists(), f"results/README.md: no {name}")

    def test_every_folder_of_results_on_gpus_is_in_their_page(self):
        text = (ROOT / "results/gpu/README.md").read_text()
        folders = {path.parent.relative_to(ROOT / "results/gpu").as_posix()
                   for path in (ROOT / "results/gpu").rglob("summary.json")}
        self.assertEqual(folders, set(re.findall(r"(?m)^\| `([\w./+-]+)` ", text)) & folders)
        self.assertGreater(len(folders), 4)

    def test_the_first_page_has_the_figures_of_the_gpu_as_they_were_written(self):
        told = json.loads((ROOT / "results/gpu/nvidia-h100-80gb-hbm3/gpt2-124m/summary.json").read_text())
        row = next(line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("| GPT-2 124M"))
        bf16 = told["speeds"]["gpt2-124m"][0]
        peak = next(check["figures"]["ledger"] for check in told["checks"] if check["name"] == "memory, bf16")
        self.assertEqual([cell.strip() for cell in row.split("|")[2:-1]],
                         ["bf16", f"{bf16['step_ms']:.1f}", f"{bf16['rate']:,.0f}", f"{bf16['share']:.1%}",
                          f"{peak / 1e9:.1f}", f"{bf16['rate'] / bf16['compiled']:.2f}"])

    def test_the_first_page_of_a_folder_names_what_is_there(self):
        for folder in FOLDERS:
            first = FIRST_PAGE.get(folder, "README.md")
            text = (ROOT / folder / first).read_text()
            names = {path.name for path in (ROOT / folder).iterdir() if path.is_dir() and path.name != "__pycache__"}
            if folder == "scripts":
                names |= {path.name for path in (ROOT / folder).iterdir() if path.suffix in ("", ".supp")}
            names |= {path.stem for path in (ROOT / folder).glob("*.md")} - {pathlib.Path(first).stem}
            if folder == "results":  # the results of the reader's own runs are there too
                names = {"reference", "gpu"}
            for name in names:
                self.assertTrue(re.search(rf"\b{re.escape(name)}\b", text), f"{folder}/{first} does not name {name}")

    @unittest.skipUnless(RUNS, "takes minutes: RINGSIDE_WORDS=run")
    def test_commands_run(self):
        """In the order of the pages, in a folder where results are left for the commands that look at them."""
        results = self.folder / "results"
        results.mkdir()
        (results / "reference").symlink_to(ROOT / "results/reference")
        for page, command in all_commands():
            program = re.sub(r"^(scripts/run |(build/)?ringside (?=(compare|train|advise|report|explain|watch|diff|trace)\b))",
                             lambda found: "compare " if found[0].startswith("scripts") else "", command)
            if program == command or any(re.search(rf"(?<![\w/.-]){re.escape(word)}(?![\w/-])", command)
                                         for word in NOT_RUN):
                continue
            for word, stand_in in PLACEHOLDERS.items():
                program = program.replace(word, stand_in)
            words = words_of(program, self.folder)
            if words[0] in ("compare", "train"):
                words += ["--set", "train.steps=2", "--set", "train.warmup=1"]
            if words[0] == "compare":
                words += ["--set", "compare.repeats=1"]
            with self.subTest(page=page, command=command):
                ended = self.run_program(words, 600)
                self.assertIn(ended.returncode, ENDS.get(words[0], {0}), ended.stderr)
            if words[:2] == ["compare", "experiments/quickstart.toml"] and not (results / "before").exists():
                for other in ("before", "after", "quickstart/before-1"):
                    shutil.copytree(results / "quickstart", results / other)


if __name__ == "__main__":
    unittest.main()
