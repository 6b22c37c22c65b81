"""The models that scripts/gpu-check trains with Ringside and with PyTorch: their shapes, their
experiment files, and how fast Ringside must be. This file does not need PyTorch."""

import dataclasses

STEM = 112 * 112 * 64 * 7 * 7 * 3  # multiplications of a ResNet's first convolution
RESNET_50 = 4_089_184_256  # multiplications of all its layers, for an image of 224 x 224 x 3


@dataclasses.dataclass(frozen=True)
class Model:
    title: str
    file: str  # its name in experiments/gpu
    unit: str  # the unit of throughput
    least: float  # least share of compiled PyTorch's throughput, in bf16
    batch: int  # samples a step
    shape: dict  # with names as in [model] of experiment files
    runs: dict  # of Ringside: {precision: (steps, warm-up, overrides)}, a few seconds each
    minutes: float  # that scripts/gpu-check takes for it
    prepare_s: float  # of these for PyTorch's compiler, which needs most of a minute for a variant


MODELS = {
    "gpt2-124m": Model(
        "GPT-2 124M", "gpt2-124m.toml", "tokens", 1.0, 32,
        {"layers": 12, "heads": 12, "width": 768, "context": 1024, "vocabulary": 50304},
        {"bf16": (40, 10, ["train.precision=bf16"]), "tf32": (20, 5, ["device.tf32=true"]),
         "fp32": (8, 2, [])}, 7, 240),
    "resnet-50": Model(
        "ResNet-50", "resnet-50.toml", "images", 0.9, 256,
        {"layers": 50, "image": 224, "channels": 3, "filters": 64, "classes": 1000},
        {"bf16": (60, 20, [])}, 3.5, 110),
    "bert-large": Model(
        "BERT-Large", "bert-large.toml", "sequences", 1.0, 256,
        {"layers": 24, "heads": 16, "width": 1024, "context": 128, "positions": 512,
         "vocabulary": 30528, "segments": 2, "masked": 20, "dropout": 0.1},
        {"bf16": (25, 5, [])}, 4, 110),
}


def units_per_sample(name):
    return MODELS[name].shape["context"] if MODELS[name].unit == "tokens" else 1


def flops_per_token(model):
    """Operations of a GPT's training step: the products of the layers and the head, and causal
    attention. A multiplication counts 2 in forward and 4 in backward; what is computed twice
    counts once."""
    layers, width = model["layers"], model["width"]
    weights = 12 * layers * width**2 + width * model["vocabulary"]
    return 6 * weights + 6 * layers * width * (model["context"] + 1)


def flops_per_sequence(model):
    """Operations of a BERT's training step. Attention looks both ways, and the heads compute at the
    hidden positions and at the first one."""
    layers, width, context = model["layers"], model["width"], model["context"]
    attention = 12 * layers * width * context**2
    heads = model["masked"] * (width**2 + width * model["vocabulary"]) + width**2 + 2 * width
    return 6 * (12 * layers * width**2 * context + heads) + attention


def flops_per_image(model):
    """Operations of a ResNet-50's training step, without the gradient of the images."""
    if (model["layers"], model["image"], model["stem"]) != (50, 224, "imagenet"):
        raise ValueError(f"no count of operations for {model}")
    return 2 * (3 * RESNET_50 - STEM)


FLOPS = {"tokens": flops_per_token, "images": flops_per_image, "sequences": flops_per_sequence}
