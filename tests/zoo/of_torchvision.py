"""Models of torchvision."""

from __future__ import annotations

from functools import partial

from architecture import Architecture, image
from torch import nn
from torchvision import models
from torchvision.models.convnext import CNBlockConfig
from torchvision.models.densenet import DenseNet
from torchvision.models.efficientnet import EfficientNet, FusedMBConvConfig, MBConvConfig
from torchvision.models.regnet import BlockParams, RegNet
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet

_row = partial(Architecture, "torchvision")


def _regnet() -> nn.Module:
    return RegNet(BlockParams.from_init_params(4, 24, 8, 2.5, 8, se_ratio=0.25), num_classes=10, stem_width=8)


def _convnext() -> nn.Module:
    settings = [CNBlockConfig(8, 16, 1), CNBlockConfig(16, 24, 1), CNBlockConfig(24, None, 1)]
    return models.ConvNeXt(settings, num_classes=10)


def _efficientnet() -> nn.Module:
    settings = [
        FusedMBConvConfig(2, 3, 1, 8, 8, 1),
        MBConvConfig(4, 3, 2, 8, 16, 1, 1.0, 1.0),
        MBConvConfig(4, 5, 2, 16, 24, 1, 1.0, 1.0),
    ]
    return EfficientNet(settings, dropout=0.1, last_channel=48, num_classes=10)


ARCHITECTURES = [
    _row("resnet", lambda: ResNet(BasicBlock, [1, 1, 1, 1], num_classes=10), image()),
    _row(
        "resnext",
        lambda: ResNet(Bottleneck, [1, 1, 1, 1], num_classes=10, groups=4, width_per_group=4),
        image(),
    ),
    _row("squeezenet", lambda: models.squeezenet1_1(num_classes=10), image(64)),
    _row("shufflenet-v2", lambda: models.ShuffleNetV2([2, 2, 2], [8, 16, 24, 32, 48], 10), image(64)),
    _row(
        "mobilenet-v2",
        lambda: models.MobileNetV2(10, 0.25, [[1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 1, 2]]),
        image(64),
    ),
    _row("mobilenet-v3", lambda: models.mobilenet_v3_small(num_classes=10, width_mult=0.5), image(64)),
    _row(
        "densenet",
        lambda: DenseNet(growth_rate=8, block_config=(2, 2, 2), num_init_features=16, num_classes=10),
        image(64),
    ),
    _row("efficientnet", _efficientnet, image(64)),
    _row("regnet", _regnet, image(64)),
    _row("convnext", _convnext, image(64)),
    _row("vit", lambda: models.VisionTransformer(32, 8, 2, 2, 32, 64, num_classes=10), image()),
    _row(
        "swin",
        lambda: models.SwinTransformer([4, 4], 16, [2, 2], [2, 4], [4, 4], num_classes=10),
        image(),
    ),
]
