"""scripts/setup and cmake/gpus.cmake: for which GPUs the kernels are built, and what is said where
they are not."""

import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLKIT = ["-DCUDAToolkit_FOUND=TRUE", "-DCUDAToolkit_NVCC_EXECUTABLE=/some/nvcc"]


class Here(unittest.TestCase):
    """A machine whose programs are made up."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "bin").mkdir()

    def program(self, name, script):
        path = self.folder / "bin" / name
        path.write_text("#!/bin/bash\n" + script)
        path.chmod(0o755)

    def run_here(self, *command, **more):
        path = f"{self.folder / 'bin'}:/usr/bin:/bin"
        return subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True,
                              text=True, timeout=60, **more)


class Gpus(Here):
    def choice(self, *options):
        """Whether the modules are built, for which GPUs, and the output of CMake."""
        (self.folder / "ask.cmake").write_text(
            f"include({ROOT}/cmake/gpus.cmake)\n"
            'message("builds=${RINGSIDE_BUILDS_CUDA} for=${CMAKE_CUDA_ARCHITECTURES}")\n')
        return self.run_here("cmake", *options, "-P", self.folder / "ask.cmake")

    def gpus_are(self, *capabilities):
        self.program("nvidia-smi", "".join(f"echo {one}\n" for one in capabilities) or "exit 9\n")

    def test_with_a_toolkit_but_no_gpu_nothing_is_built_and_a_line_says_how(self):
        self.gpus_are()
        ended = self.choice("-DRINGSIDE_CUDA=AUTO", *TOOLKIT)
        self.assertIn("builds=OFF", ended.stderr)
        self.assertRegex(ended.stdout, "Left out: .*scripts/setup -DRINGSIDE_CUDA=ON\n")

    def test_with_gpus_the_kernels_are_built_for_these_alone(self):
        self.gpus_are("9.0", "9.0", "12.0", "7.5")
        ended = self.choice("-DRINGSIDE_CUDA=AUTO", *TOOLKIT)
        self.assertIn("builds=ON for=90-real;120-real\n", ended.stderr)

    def test_gpus_that_are_all_too_old_are_none(self):
        self.gpus_are("7.5")
        self.assertIn("builds=OFF", self.choice("-DRINGSIDE_CUDA=AUTO", *TOOLKIT).stderr)

    def test_who_asks_without_a_gpu_gets_kernels_for_all(self):
        self.gpus_are()
        ended = self.choice("-DRINGSIDE_CUDA=ON", *TOOLKIT)
        self.assertIn("builds=ON for=80-real;90-real;100-real;120\n", ended.stderr)

    def test_who_names_what_to_build_for_gets_that(self):
        self.gpus_are("9.0")
        ended = self.choice("-DRINGSIDE_CUDA=AUTO", "-DCMAKE_CUDA_ARCHITECTURES=86", *TOOLKIT)
        self.assertIn("builds=ON for=86\n", ended.stderr)

    def test_without_a_toolkit_who_asks_is_refused_and_others_are_not(self):
        self.assertIn("builds=OFF", self.choice("-DRINGSIDE_CUDA=AUTO").stderr)
        self.assertIn("builds=OFF", self.choice("-DRINGSIDE_CUDA=OFF", *TOOLKIT).stderr)
        ended = self.choice("-DRINGSIDE_CUDA=ON")
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("there is no CUDA toolkit", ended.stderr)


class Setup(Here):
    """In a copy of the scripts, with a CMake that only prints what the real one would."""

    def set_up(self, configured, cache="", fetching="echo fetched $1"):
        scripts = self.folder / "scripts"
        scripts.mkdir()
        (scripts / "setup").write_text((ROOT / "scripts/setup").read_text())
        (scripts / "setup").chmod(0o755)
        for name in ("cudnn-frontend", "vl-convert"):
            (scripts / name).write_text(f"#!/bin/bash\n{fetching}\n")
            (scripts / name).chmod(0o755)
        # Every package is there.
        self.program("dpkg-query", 'for name in "${@:4}"; do echo "ii $name"; done\n')
        self.program("cmake", f"""[[ $1 == --preset ]] || exit 0
mkdir -p build && touch build/build.ninja && echo '{cache}' >build/CMakeCache.txt
echo configured >>calls
echo '-- Configuring done'
echo '-- {configured}'
""")
        return self.run_here(scripts / "setup", cwd=self.folder)

    def test_shows_what_was_left_out_and_nothing_else_of_cmake(self):
        ended = self.set_up("Left out: kernels; to build them: this")
        self.assertEqual(ended.stdout,
                         "Configuring build/\nLeft out: kernels; to build them: this\n")

    def test_fetches_the_frontend_of_cudnn_only_where_it_is_looked_for(self):
        self.assertNotIn("fetched", self.set_up("Found all").stdout)

    def test_fetches_the_frontend_of_cudnn_and_configures_again(self):
        ended = self.set_up(
            "Found all", "CUDNN_FRONTEND_INCLUDE:PATH=CUDNN_FRONTEND_INCLUDE-NOTFOUND")
        self.assertIn("fetched build/cudnn-frontend", ended.stdout)
        self.assertEqual((self.folder / "calls").read_text().count("configured"), 2)

    def test_fetches_what_draws_the_report_and_configures_again(self):
        ended = self.set_up("Left out: report.html, whose library is missing",
                            "RINGSIDE_VEGA:FILEPATH=RINGSIDE_VEGA-NOTFOUND")
        self.assertEqual(ended.stdout,
                         "Configuring build/\nFetching the library that draws report.html\n"
                         "fetched build/vl-convert\n")
        self.assertEqual((self.folder / "calls").read_text().count("configured"), 2)

    def test_goes_on_without_what_draws_the_report(self):
        ended = self.set_up("Found all", "RINGSIDE_VEGA:FILEPATH=RINGSIDE_VEGA-NOTFOUND", "exit 1")
        self.assertEqual(ended.returncode, 0)
        self.assertIn("there is no report.html", ended.stderr)


if __name__ == "__main__":
    unittest.main()
