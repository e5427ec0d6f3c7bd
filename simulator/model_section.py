"""The [model] table of a scenario. Free of torch: the command line imports it at start-up."""

from __future__ import annotations

from pydantic import Field, PositiveInt, field_validator, model_validator

from simulator.errors import unknown_name
from simulator.section import Section

MODEL_DESCRIPTIONS: dict[str, str] = {
    "logistic": "softmax regression on inputs of any shape",
    "mlp": "dense network on inputs of any shape; option hidden, [64] by default",
    "cnn-small": "two 3x3 convolutions (8, 16) and 32 dense units, for images from 4x4",
    "cnn-async-hfl": "two 5x5 convolutions (20, 50) and 500 dense units, as in Async-HFL",
    "cnn-sync-time": "two 5x5 convolutions (6, 16), 120 and 84 dense units, as in sync-time HFL",
    "vgg9": "six 3x3 convolutions and three dense layers, for images from 8x8",
    "resnet10": "residual network of four blocks, without batch normalisation",
    "resnet18": "residual network of eight blocks, without batch normalisation",
    "char-lstm": "next character from two LSTM layers of 100 units, after Async-HFL",
    "sensor-mlp": "dense network for sensor features; option hidden, [128] by default",
    "series-lstm": "next values of a time series from one LSTM layer of 128 units",
}

OPTIONS = {"hidden": ("mlp", "sensor-mlp"), "layers": ("char-lstm",)}
"""Which models have which option."""


class ModelSection(Section):
    name: str
    """Which model to train; `meshfl list models` describes them."""
    hidden: tuple[PositiveInt, ...] | None = None
    """Units of each hidden layer, for mlp and sensor-mlp; left out: the model's default."""
    layers: PositiveInt | None = None
    """LSTM layers, for char-lstm; left out: the model's default, 2."""
    transfer_bytes: int | None = Field(None, ge=1, le=2**40)
    """Size of the model on the network; left out: 4 bytes per parameter."""

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in MODEL_DESCRIPTIONS:
            raise ValueError(str(unknown_name("model", name, MODEL_DESCRIPTIONS)))
        return name

    @field_validator("hidden")
    @classmethod
    def _some_layer(cls, hidden: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if hidden == ():
            raise ValueError("hidden = [] has no layer, at least 1 is needed; use 'logistic'")
        return hidden

    @model_validator(mode="after")
    def _options_where_they_count(self) -> ModelSection:
        for option, models in OPTIONS.items():
            if getattr(self, option) is not None and self.name not in models:
                raise ValueError(
                    f"{option} does not apply to model {self.name!r}, only to "
                    f"{' and '.join(models)}; delete it"
                )
        return self
