import numpy as np
import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from sklearn.decomposition import PCA

from selection.sketch import SKETCHES, SketchSection
from simulator.state import load_state, save_state

LENGTH = 20_000


def section(kind, **params):
    return TypeAdapter(SketchSection).validate_python({"kind": kind, **params})


def fit(kind, gradients, seed=1, **params):
    params = section(kind, **params)
    return SKETCHES[kind].fit(params, length=len(gradients[0]), seed=seed, gradients=gradients)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def gradients():
    """Forty, with a mean, near a space of ten dimensions."""
    spread = normal(40, 10) @ normal(10, LENGTH, seed=1) + 0.05 * normal(40, LENGTH, seed=2)
    return spread + 2 * normal(LENGTH, seed=3)


def products(sketch, gradients):
    sketches = np.stack([sketch.sketch(g) for g in gradients])
    return sketches @ sketches.T


def error(sketch, gradients):
    wanted = (gradients @ gradients.T).numpy()
    return np.linalg.norm(products(sketch, gradients) - wanted) / np.linalg.norm(wanted)


def test_pca_keeps_dot_products(gradients):
    """11 dimensions hold all but the noise: ten, and the mean."""
    assert error(fit("pca", gradients, components=11), gradients) < 0.01
    assert error(fit("pca", gradients, components=3), gradients) > 0.1


def test_pca_of_two_gradients_by_hand():
    """Along (3, 4) and across it."""
    sketch = fit("pca", [torch.tensor([6.0, 8.0]), torch.tensor([-4.0, 3.0])])
    assert sketch.components.flatten().tolist() == pytest.approx([0.6, 0.8, 0.8, -0.6])
    assert sketch.sketch(torch.tensor([6.0, 8.0])).tolist() == pytest.approx([10, 0], abs=1e-5)
    assert sketch.sketch(torch.tensor([1.0, 0.0])).tolist() == pytest.approx([0.6, 0.8])


def test_no_sketches_of_that_length_are_nearer(gradients):
    """Uncentred, the Gram matrix is approximated as by its own largest eigenvalues."""
    wanted = (gradients @ gradients.T).numpy().astype(float)
    values = np.linalg.eigvalsh(wanted)[:-6:-1]
    got = np.linalg.eigvalsh(products(fit("pca", gradients, components=5), gradients))
    assert got[:-6:-1] == pytest.approx(values, rel=1e-4)
    centred = fit("pca", gradients, components=5, centred=True)
    assert error(centred, gradients) > error(fit("pca", gradients, components=5), gradients)


def test_centred_components_are_scikit_learn_s(gradients):
    ours = fit("pca", gradients, components=8, centred=True).components.numpy()
    theirs = PCA(8, svd_solver="full").fit(gradients.numpy()).components_
    assert np.abs((ours * theirs).sum(axis=1)) == pytest.approx(np.ones(8), abs=1e-4)


def test_signs_are_fixed(gradients):
    ours, negative = (fit("pca", g, components=8).components for g in (gradients, -gradients))
    assert torch.allclose(ours, negative, atol=1e-4)


@pytest.mark.parametrize(("count", "components"), [(4, 4), (40, 30)])
def test_no_more_components_than_gradients(gradients, count, components):
    sketch = fit("pca", gradients[:count])
    assert sketch.sketch(gradients[0]).shape == (components,)


def test_no_more_components_than_independent_gradients():
    one = normal(LENGTH)
    assert len(fit("pca", [one, 2 * one, -one]).components) == 1
    assert fit("pca", [0 * one, 0 * one]).sketch(one).shape == (0,)


def test_random_projection_is_right_in_the_mean(gradients):
    """A squared length has a relative standard deviation of sqrt(2 / components)."""
    some = gradients[:5, :2000]
    assert error(fit("random-projection", some, components=2000), some) < 0.1
    few = [products(fit("random-projection", some, seed=s), some) for s in range(100)]
    wanted = (some @ some.T).numpy()
    assert np.linalg.norm(np.mean(few, axis=0) - wanted) < 0.1 * np.linalg.norm(wanted)


def test_random_projection_depends_on_the_seed_alone(gradients):
    a, b, c = (fit("random-projection", gradients, seed=s).sketch(gradients[0]) for s in (1, 1, 2))
    assert np.array_equal(a, b)
    assert not np.allclose(a, c)


def test_full_is_the_gradient(gradients):
    assert np.array_equal(fit("full", gradients).sketch(gradients[0]), gradients[0].numpy())


@pytest.mark.parametrize(
    ("kind", "sketch_bytes", "parameter_bytes"),
    [
        ("pca", 4 * 30, 4 * 30 * LENGTH),
        ("random-projection", 4 * 30, 8),
        ("full", 4 * LENGTH, 0),
    ],
)
def test_bytes(gradients, kind, sketch_bytes, parameter_bytes):
    sketch = fit(kind, gradients)
    model_bytes = gradients[0].nbytes
    assert sketch.sketch_bytes(model_bytes) == sketch_bytes
    assert sketch.parameter_bytes(model_bytes) == parameter_bytes
    assert sketch.sketch(gradients[0]).nbytes == sketch_bytes


@pytest.mark.parametrize("kind", SKETCHES)
def test_same_after_another_fit_and_after_saving(gradients, kind, tmp_path):
    sketch = fit(kind, gradients)
    save_state(tmp_path / "s", sketch)
    again, back = fit(kind, list(gradients)), load_state(tmp_path / "s", None)
    expected = sketch.sketch(gradients[7])
    assert np.array_equal(again.sketch(gradients[7]), expected)
    assert np.array_equal(back.sketch(gradients[7]), expected)
    assert back.sketch_bytes(100) == sketch.sketch_bytes(100)


def test_unknown_kinds_and_keys_are_refused():
    for bad in (
        {"kind": "svd"},
        {"kind": "full", "components": 3},
        {"kind": "pca", "components": 0},
    ):
        with pytest.raises(ValidationError):
            section(**bad)


def test_only_pca_must_be_fitted():
    assert [kind for kind in SKETCHES if section(kind=kind).warm_up != "none"] == ["pca"]
    with pytest.raises(ValidationError):
        section(kind="pca", warm_up="none")
