"""Ringside's models in PyTorch, for all programs that compare the two: tests/parity,
tests/bench/against_pytorch.py, scripts/gpu-check, and the schemes of this package.

A model is made of a dictionary in the words of [model] in experiment files. Its forward takes the
inputs of samples as Ringside's data sets give them (images: channels first) and returns the logits of
each term of the loss, [rows, classes]. Parameters have the names of Hugging Face (GPT-2, Llama, BERT,
Idefics3, T5) or torchvision (ResNet, VGG, AlexNet, Inception).
"""

from ringside_peers.models.bert import Bert, BertLayer, BertSelf, BertSelfInOne
from ringside_peers.models.gpt import Conv1D, Gpt, GptBlock
from ringside_peers.models.idefics3 import Idefics3, VisionLayer
from ringside_peers.models.images import AlexNet, Inception, InceptionBlock, InceptionConv, ResNet, ResNetBlock, Vgg
from ringside_peers.models.llama import Llama, LlamaLayer
from ringside_peers.models.mlp import Mlp
from ringside_peers.models.parts import WithLoss, loss_of, start_normal
from ringside_peers.models.t5 import T5

__all__ = [
    "AlexNet", "Bert", "BertLayer", "BertSelf", "BertSelfInOne", "Conv1D", "Gpt", "GptBlock", "Idefics3", "Inception",
    "InceptionBlock", "InceptionConv", "Llama", "LlamaLayer", "Mlp", "ResNet", "ResNetBlock", "T5", "Vgg",
    "VisionLayer", "WithLoss", "loss_of", "start_normal",
]
