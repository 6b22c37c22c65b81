"""Asks NVIDIA's driver about the first GPU, without a context, which would take memory."""

import ctypes
import dataclasses
import threading
import time


class NoGpu(Exception):
    """The machine has no GPU that can be used; the text says why."""


@dataclasses.dataclass
class Gpu:
    name: str
    capability: tuple  # (9, 0)
    memory: int  # bytes
    driver: str  # its version; empty if not known
    bus: str  # its PCI bus id
    count: int = 1  # of GPUs on this machine


def look():
    """The first GPU. Throws NoGpu."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise NoGpu("NVIDIA's driver (libcuda.so.1) is not installed") from None
    count = ctypes.c_int()
    if (error := cuda.cuInit(0)) or (error := cuda.cuDeviceGetCount(ctypes.byref(count))):
        raise NoGpu(f"NVIDIA's driver finds no GPU (error {error})")
    if count.value == 0:
        raise NoGpu("NVIDIA's driver finds no GPU")
    device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    name, bus = ctypes.create_string_buffer(256), ctypes.create_string_buffer(64)
    memory = ctypes.c_size_t()
    cuda.cuDeviceGet(ctypes.byref(device), 0)
    cuda.cuDeviceGetName(name, len(name), device)
    cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, device)
    cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, device)
    cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    cuda.cuDeviceGetPCIBusId(bus, len(bus), device)
    return Gpu(name.value.decode(), (major.value, minor.value), memory.value, _driver_version(),
               bus.value.decode(), count.value)


def _management():
    """The library NVML, or None if it cannot be used."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    return nvml if nvml.nvmlInit_v2() == 0 else None


def _driver_version():
    nvml = _management()
    version = ctypes.create_string_buffer(96)
    if not nvml or nvml.nvmlSystemGetDriverVersion(version, len(version)):
        return ""
    return version.value.decode()


class _Memory(ctypes.Structure):  # nvmlMemory_v2_t
    _fields_ = [("version", ctypes.c_uint), ("total", ctypes.c_ulonglong),
                ("reserved", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong),
                ("used", ctypes.c_ulonglong)]


class MemoryWatch:
    """While open, asks again and again how much of the GPU's memory is used by all processes.
    `most` is the largest figure, in bytes; None if the driver does not tell."""

    def __init__(self, gpu, interval_s=0.05):
        self.most = None
        self._interval_s = interval_s
        self._end = threading.Event()
        self._nvml = _management()
        self._device = ctypes.c_void_p()
        if self._nvml and self._nvml.nvmlDeviceGetHandleByPciBusId_v2(
                gpu.bus.encode(), ctypes.byref(self._device)):
            self._nvml = None
        self._thread = threading.Thread(target=self._watch)

    def _used(self):
        memory = _Memory(version=ctypes.sizeof(_Memory) | 2 << 24)
        failed = self._nvml.nvmlDeviceGetMemoryInfo_v2(self._device, ctypes.byref(memory))
        return None if failed else memory.used

    def _watch(self):
        while self._nvml and not self._end.is_set():
            used = self._used()
            if used is None:
                return
            self.most = max(self.most or 0, used)
            time.sleep(self._interval_s)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()
