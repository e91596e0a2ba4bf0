"""The Wide-ResNet-16-4 of paper B (Figures 19 and 20) on CIFAR-10: Algorithm 1, DP-SGD and throw-away.

    python -m benchmarks.networks.wide_resnet --data cifar-10-batches-bin --epsilon 8 --ratio 0.04
    python -m benchmarks.networks.wide_resnet --smoke

`--data` is the folder of CIFAR-10's binary version. A run needs a GPU and hours; `--smoke` makes two steps of a narrow network on
random images. As in the paper: batches of 256, delta = 1e-5, 40,000 training, 10,000 validation and 10,000 test images, no batch or
group normalization, no augmentation, constant step size, no momentum, cold start. Unlike there, epsilon is for replacing an image.
Choosing settings by the 10,000 private validation images is outside the guarantee, in the paper and here.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import fastpubpriv as fpp
from fastpubpriv.torch import make_semi_private

N_TRAIN, BATCH, DELTA = 40_000, 256, 1e-5


class Block(nn.Module):
    """Residual block of two convolutions; the second is initialized to zero, so that the block starts as its shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1)
        self.shortcut = (
            nn.Conv2d(inputs, outputs, 1, stride)
            if (inputs, stride) != (outputs, 1)
            else nn.Identity()
        )
        nn.init.zeros_(self.second.weight)

    def forward(self, x: Any) -> Any:
        """Return the feature maps of the block."""
        inner = functional.relu(x)
        return self.shortcut(inner) + self.second(functional.relu(self.first(inner)))


def wide_resnet(depth: int = 16, width: int = 4, classes: int = 10) -> nn.Module:
    """Return WRN-depth-width without normalization; WRN-16-4 has 2.7 million parameters."""
    blocks = (depth - 4) // 6
    channels = 16
    layers: list[nn.Module] = [nn.Conv2d(3, channels, 3, 1, 1)]
    for group in range(3):
        outputs = 16 * width * 2**group
        for i in range(blocks):
            layers.append(Block(channels, outputs, 2 if group and not i else 1))
            channels = outputs
    return nn.Sequential(
        *layers, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)
    )


def load_cifar(folder: Path) -> tuple[Any, Any, Any, Any]:
    """Return images (n, 3, 32, 32), scaled to [-2, 2], and labels for training and for testing."""
    parts = []
    for names in ([f"data_batch_{i}.bin" for i in range(1, 6)], ["test_batch.bin"]):
        table = np.concatenate(
            [np.fromfile(folder / name, dtype=np.uint8).reshape(-1, 3073) for name in names]
        )
        images = (
            torch.from_numpy(table[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32) / 127.5 - 1.0)
            * 2.0
        )
        parts += [images, torch.from_numpy(table[:, 0].astype(np.int64))]
    return parts[0], parts[1], parts[2], parts[3]


def random_images(count: int) -> tuple[Any, Any, Any, Any]:
    """Return noise in place of images, for `--smoke`."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(count, 3, 32, 32, generator=generator)
    y = torch.arange(count) % 10
    return x, y, x[:100], y[:100]


def entropy(outputs: Any, labels: Any) -> Any:
    """Return the cross-entropy loss of each image."""
    return functional.cross_entropy(outputs, labels, reduction="none")


def test_error(net: nn.Module, x: Any, y: Any, device: str) -> float:
    """Return the misclassification rate."""
    net.eval()
    with torch.no_grad():
        wrong = [
            (net(x[i : i + 500].to(device)).argmax(1).cpu() != y[i : i + 500]).float().sum()
            for i in range(0, len(x), 500)
        ]
    net.train()
    return float(sum(wrong)) / len(x)


def train(
    method: str, net: nn.Module, public: Any, private: Any, options: argparse.Namespace
) -> dict[str, Any]:
    """Train the network in place; return the numbers to report with the error."""
    optimizer = torch.optim.SGD(net.parameters(), lr=options.step_size)
    if method == "throw-away":
        generator = torch.Generator().manual_seed(0)
        for _ in range(options.steps):
            chosen = torch.randperm(len(public[0]), generator=generator)[: options.batch]
            optimizer.zero_grad()
            entropy(
                net(public[0][chosen].to(options.device)), public[1][chosen].to(options.device)
            ).mean().backward()
            optimizer.step()
        return {"epsilon": 0.0}
    if method == "DP-SGD":  # every image is treated as private
        private = tuple(torch.cat(pair) for pair in zip(public, private, strict=True))
    training = make_semi_private(
        net,
        optimizer,
        private,
        public=public,
        loss=entropy,
        budget=fpp.ApproxDP(options.epsilon, DELTA),
        steps=options.steps,
        batch_rows=options.batch,
        public_batch_rows=options.batch,
        clip_norm=1.0,
        priv_weight=1.0 if method == "DP-SGD" else options.priv_weight,
    )
    training.run()
    return {"epsilon": options.epsilon, "epsilon_add_remove": round(training.epsilon_add_remove, 3)}


def main() -> None:
    """Train by each method and print its error."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder of CIFAR-10's binary version")
    parser.add_argument(
        "--smoke", action="store_true", help="two steps of a narrow net on random images"
    )
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--ratio", type=float, default=0.04, help="share of public images")
    parser.add_argument("--steps", type=int, default=5000, help="the paper tried 3000 to 7000")
    parser.add_argument("--step-size", type=float, default=1.0, help="the paper tried 0.1 to 3")
    parser.add_argument("--priv-weight", type=float, default=0.5, help="the paper tried 0 to 1")
    parser.add_argument("--methods", nargs="+", default=["Algorithm 1", "DP-SGD", "throw-away"])
    options = parser.parse_args()
    options.device, options.batch = "cuda" if torch.cuda.is_available() else "cpu", BATCH
    if options.smoke:
        x, y, test_x, test_y = random_images(300)
        options.steps, options.batch, count = 2, 16, 300
    elif options.data is None:
        parser.error("pass --data, the folder of CIFAR-10's binary version, or --smoke")
    else:
        x, y, test_x, test_y = load_cifar(options.data)
        count = N_TRAIN
    n_pub = round(options.ratio * count)
    public = (x[:n_pub], y[:n_pub])
    private = (x[n_pub:count], y[n_pub:count])
    for method in options.methods:
        torch.manual_seed(0)
        net = wide_resnet(width=1 if options.smoke else 4).to(options.device)
        begin = time.perf_counter()
        said = train(method, net, public, private, options)
        error = test_error(net, test_x, test_y, options.device)
        size = sum(p.numel() for p in net.parameters())
        print(
            f"{method}: test error {error:.4f}, {said}, {size} parameters, {time.perf_counter() - begin:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
