"""The programs of scripts/gpu-check: built here, or elsewhere and brought along. Finds compilers and
libraries on the machine, in Python's packages, and in the bundle that scripts/bundle made."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import time

from gpu_job import Failed, program
from gpu_report import Check


def unpacked(given, into):
    """The folder that scripts/bundle made, out of its archive if it is one."""
    if given.is_dir():
        return given.resolve()
    into.mkdir(parents=True, exist_ok=True)
    with tarfile.open(given) as archive:
        archive.extractall(into)
        return into / archive.getnames()[0].split("/")[0]


def unpack_bundle(given, root, build):
    """The folder of the bundle that scripts/bundle made; None without a bundle."""
    if given is None:
        found = [path for path in (root / "bundle", root / "bundle.tar.xz") if path.exists()]
        if not found:
            return None
        given = found[0]
    return unpacked(given, build)


def compiler():
    """The first g++ that is new enough, or None."""
    for name in ("g++", "g++-14", "g++-13", "g++-12"):
        path = shutil.which(name)
        if path and int(subprocess.run([path, "-dumpversion"], capture_output=True, text=True)
                        .stdout.split(".")[0] or 0) >= 12:
            return path
    return None


def toolkit_from_python(nvcc, build):
    """A folder with links to libraries of CUDA that the toolkit and the system lack, but Python's
    packages have; None if no library is missing, or the packages have none."""
    cuda = pathlib.Path(nvcc).resolve().parent.parent
    machine = f"{os.uname().machine}-linux"
    usr = pathlib.Path("/usr")
    includes = [cuda / "include", cuda / "targets" / machine / "include", usr / "include",
                usr / "include" / f"{machine}-gnu"]
    libraries = [cuda / "lib64", cuda / "targets" / machine / "lib", usr / "lib64",
                 usr / "lib" / f"{machine}-gnu"]
    nvidia = importlib.util.find_spec("nvidia")
    overlay = build / "toolkit"
    shutil.rmtree(overlay, ignore_errors=True)
    for name in ("cublasLt", "nvrtc", "cudnn", "nccl"):
        if (any((place / f"{name}.h").exists() for place in includes) and
                any((place / f"lib{name}.so").exists() for place in libraries)):
            continue
        prefix = name.removesuffix("Lt")
        for place in nvidia.submodule_search_locations if nvidia else ():
            link(pathlib.Path(place).glob(f"*/include/{prefix}*"), overlay / "include")
            link(pathlib.Path(place).glob(f"*/lib/lib{prefix}*.so*"), overlay / "lib")
    return overlay if overlay.exists() else None


def link(files, folder):
    for file in files:
        folder.mkdir(parents=True, exist_ok=True)
        for name in {file.name, re.sub(r"\.so\..*", ".so", file.name)}:
            if not (folder / name).exists():
                (folder / name).symlink_to(file)


def nvcc_here():
    """The path of nvcc; None if it is not installed."""
    usual = "/usr/local/cuda/bin/nvcc"
    return shutil.which("nvcc") or (usual if os.path.exists(usual) else None)


def build(job, bundle, gpu):
    """Configures and builds the programs that the checks run."""
    nvcc = nvcc_here()
    gxx = compiler()
    prefixes = [str(path) for path in (unpack_bundle(bundle, job.root, job.build),
                                       toolkit_from_python(nvcc, job.build)) if path]
    if job.build / "toolkit" in map(pathlib.Path, prefixes):
        job.environment["CPATH"] = str(job.build / "toolkit/include")
        job.environment["LD_LIBRARY_PATH"] = ":".join(filter(None, (
            str(job.build / "toolkit/lib"), os.environ.get("LD_LIBRARY_PATH"))))
    arguments = ["cmake", "-S", job.root, "-B", job.build, "-DRINGSIDE_SIMGRID=OFF",
                 "-DRINGSIDE_CUDA=ON",
                 f"-DCMAKE_PREFIX_PATH={';'.join(prefixes)}", f"-DCMAKE_CXX_COMPILER={gxx}",
                 f"-DCMAKE_CUDA_HOST_COMPILER={gxx}",
                 f"-DCUDAToolkit_ROOT={pathlib.Path(nvcc).parent.parent}",
                 # The same as "native", also for a CMake that does not know that word.
                 f"-DCMAKE_CUDA_ARCHITECTURES={gpu.capability[0]}{gpu.capability[1]}-real"]
    go_on = ["-k"]  # if one target fails, the others are still built
    if shutil.which("ninja") and not (job.build / "Makefile").exists():
        arguments += ["-G", "Ninja"]
        go_on = ["-k", "0"]
    began = time.monotonic()
    job.run("build", arguments, 60)
    job.run("build", ["cmake", "--build", job.build, "--parallel", str(os.cpu_count()), "--target",
                      "ringside", "gpu_test", "gpu_bench", "--", *go_on], 240)
    return Check("build", True, f"{time.monotonic() - began:.0f} s with {os.cpu_count()} cores")


def versions(programs):
    """The notes of `scripts/bundle --programs` about the programs, such as their commit."""
    lines = (programs / "VERSIONS").read_text().splitlines()
    return {name.strip(): told.strip() for name, _, told in (line.partition("  ") for line in lines)}


def missing_libraries(job):
    """Names of shared libraries that the programs and their modules do not find."""
    modules = sorted(job.programs.glob("libringside_*.so"))
    told = subprocess.run(["ldd", program(job, "ringside"), *modules], env=job.environment,
                          capture_output=True, text=True)
    return sorted(set(re.findall(r"(\S+) => not found", told.stdout)))


def places_of_libraries():
    """Folders in which CUDA's libraries, cuDNN or NCCL may lie without the loader knowing."""
    yield from (path for path in map(pathlib.Path, ("/usr/local/cuda/lib64", "/opt/cuda/lib64")))
    nvidia = importlib.util.find_spec("nvidia")
    for place in nvidia.submodule_search_locations if nvidia else ():
        yield from sorted(pathlib.Path(place).glob("*/lib"))


def carried(job):
    """Checks programs that were built elsewhere, and tells the loader where this machine has CUDA's
    libraries, if it does not know. Throws Failed if one is missing."""
    for place in places_of_libraries():
        if any((place / name).exists() for name in missing_libraries(job)):
            job.environment["LD_LIBRARY_PATH"] = ":".join(filter(None, (
                job.environment.get("LD_LIBRARY_PATH"), str(place))))
    if missing := missing_libraries(job):
        raise Failed(f"{', '.join(missing)}: not found on this machine, and not in {job.programs}; "
                     "install what has them (CUDA's runtime, cuDNN, NCCL)")
    told = versions(job.programs)
    return Check("programs", True, f"built elsewhere: commit {told.get('commit', 'not known')}, "
                                   f"{told.get('built for', 'no word of what for')}")
