import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms import ALGORITHMS, AlgorithmSection
from simulator.errors import UserError
from simulator.scenario import Scenario

ROOT = Path(__file__).parents[2]
FEDAVG = ROOT / "scripts/scenarios/fedavg-tree-30.toml"
MINIMAL = """
[run]
epochs = 1
[topology]
kind = "file"
path = "tree-30"
[network]
kind = "flow"
[model]
name = "mlp"
[algorithm]
name = "fedavg"
"""


def load(tmp_path, text, *settings):
    path = tmp_path / "scenario.toml"
    path.write_text(text)
    return Scenario.load(path, settings)


def error_of(tmp_path, text, *settings):
    with pytest.raises(UserError) as error:
        load(tmp_path, text, *settings)
    return str(error.value)


def test_minimal_scenario_has_all_sections(tmp_path):
    scenario = load(tmp_path, MINIMAL)
    assert scenario.data.name == "digits"
    assert scenario.training.epochs == 1
    assert scenario.selection.name == "all"


@pytest.mark.parametrize("path", sorted((ROOT / "scripts/scenarios").rglob("*.toml")), ids=str)
def test_shown_scenario_is_the_same_scenario(path, tmp_path):
    scenario = Scenario.load(path)
    assert load(tmp_path, scenario.to_toml()) == scenario


def test_every_key_is_shown(tmp_path):
    shown = load(tmp_path, MINIMAL).to_toml()
    for section in Scenario.model_fields:
        assert f"[{section}]" in shown
    for key in ("learning_rate", "gateway_timeout_s", "checkpoint_every_s", "noise_sigma"):
        assert key in shown


@pytest.mark.parametrize(
    ("text", "settings", "expected"),
    [
        (MINIMAL + "gateway_round = 2\n", (), "algorithm.gateway_round: unknown key; did you mean 'gateway_rounds'?"),
        (MINIMAL + "gateway-rounds = 2\n", (), "algorithm.gateway-rounds: unknown key; did you mean 'gateway_rounds'?"),
        (MINIMAL + "[trainning]\n", (), "trainning: unknown key; did you mean 'training'?"),
        (MINIMAL + "[training]\nlearning_rate = -1\n", (), "training.learning_rate: -1 should be greater than 0"),
        (MINIMAL + "[training]\nlearning_rate = nan\n", (), "training.learning_rate: nan should be"),
        (MINIMAL + "[training]\nepochs = 1\nsteps = 2\n", (), "training: give epochs or steps, not both"),
        (MINIMAL, ("network.kind=flwo",), "network.kind: unknown 'flwo'; did you mean 'flow'?"),
        (MINIMAL, ("network.noise_sigma=-1",), "network.noise_sigma: -1 should be greater than or equal to 0"),
        (MINIMAL, ("network.noise=1",), "network.noise: unknown key; did you mean 'noise_sigma'?"),
        (MINIMAL, ("data.name=digit",), "data.name: 'digit' unknown data set 'digit'; did you mean 'digits'?"),
        (MINIMAL, ("data.partition.kind=iidd",), "data.partition.kind: unknown 'iidd'; did you mean 'iid'?"),
        (MINIMAL, ("data.partition.alpha=1",), "data.partition.kind: missing; known: iid, "),
        (MINIMAL, ("model.name=mpl",), "unknown model 'mpl'; did you mean 'mlp'?"),
        (MINIMAL, ("algorithm.name=fedavgg",), "algorithm.name: "),
        (MINIMAL, ("network.noise_sigma=60",), "network.noise_sigma: 60 should be less than or equal to 10"),
        (MINIMAL, ("sketch.kind=random-projection", "sketch.components=10001"), "sketch.components: 10001 should be less than or equal to 10000"),
        (MINIMAL, ("run.stop_at_target=true",), "run: stop_at_target needs a target"),
        (MINIMAL, ("run.learning=none", "run.target=0.9"), 'run: target = 0.9 cannot be reached with learning = "none"'),
        (MINIMAL, ("run.learning=nothing",), "run.learning: 'nothing' should be 'sgd' or 'none'"),
        (MINIMAL.replace("epochs = 1", ""), (), "run: give epochs or sim_time_s"),
        (MINIMAL, ("compute.kind=constant", "compute.dropout_probability=0.1"), "\n  compute.dropout_probability = 0.1: a device that drops out never answers, and fedavg would wait for it for ever; give algorithm.gateway_timeout_s"),
        (MINIMAL.replace('name = "mlp"', ""), (), "model.name: missing"),
        ("[run\n", (), "not a readable TOML file"),
        (MINIMAL, ("epochs=3",), "--set epochs=3: must read section.key=value"),
        (MINIMAL, ("run.epochs",), "--set run.epochs: must read section.key=value"),
        (MINIMAL, ("run.epochs.x=3",), "'epochs' is a value, not a table"),
    ],
)  # fmt: skip
def test_bad_input_is_told_with_place_and_remedy(tmp_path, text, settings, expected):
    assert expected in error_of(tmp_path, text, *settings)


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("lower", ["star", "ring"])
def test_where_devices_drop_out_they_have_a_deadline(tmp_path, name, lower):
    own = {"sync-time": ["sync_time_s=1"], "star-ring-hfl": [f"lower={lower}"]}
    dropouts = (
        "compute.kind=constant",
        "compute.dropout_probability=0.1",
        f"algorithm.name={name}",
        *(f"algorithm.{setting}" for setting in own.get(name, [])),
    )
    key = re.search(r"give algorithm\.(\w+)", error_of(tmp_path, MINIMAL, *dropouts))[1]
    assert load(tmp_path, MINIMAL, *dropouts, f"algorithm.{key}=60").algorithm.name == name


def test_all_problems_are_told_at_once(tmp_path):
    message = error_of(tmp_path, MINIMAL, "training.batch_size=0", "run.epoch=1", "model.name=x")
    assert len(message.splitlines()) == 4


def test_missing_file(tmp_path):
    with pytest.raises(UserError, match=r"no\.toml: no such scenario file"):
        Scenario.load(tmp_path / "no.toml")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("run.seed=7", 7),
        ("run.seed = 7", 7),
    ],
)
def test_settings_are_toml_values(tmp_path, setting, value):
    assert load(tmp_path, MINIMAL, setting).run.seed == value


def test_settings_may_be_bare_words_and_lists(tmp_path):
    scenario = load(tmp_path, MINIMAL, "model.hidden=[32, 16]", "data.name=digits")
    assert scenario.model.hidden == (32, 16)


keys = st.sampled_from(
    ["run.epochs", "run.seed", "training.learning_rate", "training.batch_size", "network.kind",
     "data.fraction", "model.hidden", "algorithm.proximal", "nonsense.key", "run.nonsense"]
)  # fmt: skip
values = st.one_of(
    st.integers(), st.floats(), st.booleans(), st.text(max_size=5), st.lists(st.integers())
)


@given(st.lists(st.tuples(keys, values), min_size=1, max_size=4))
def test_whatever_is_given_is_accepted_or_told(tmp_path_factory, settings):
    """Never a traceback, and what is accepted is shown as it was understood."""
    path = tmp_path_factory.mktemp("scenario") / "s.toml"
    path.write_text(MINIMAL)
    words = [f"{key}={_toml(value)}" for key, value in settings]
    try:
        scenario = Scenario.load(path, words)
    except UserError:
        return
    path.write_text(scenario.to_toml())
    assert Scenario.load(path) == scenario


def _toml(value):
    return str(value).lower() if isinstance(value, bool | float) else repr(value)


def test_show_is_plain_toml(tmp_path):
    parsed = tomllib.loads(load(tmp_path, MINIMAL).to_toml())
    assert parsed["run"] == {
        "seed": 0, "epochs": 1, "learning": "sgd", "stop_at_target": False, "engine": "auto",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [
        (get_args(section.model_fields["name"].annotation)[0], key)
        for section in get_args(get_args(AlgorithmSection)[0])
        for key in section.model_fields
        if key.endswith("timeout_s") or key == "period_s"
    ],
)
def test_a_deadline_that_rings_at_once_is_refused(tmp_path, algorithm, key):
    """Below a nanosecond it would ring for ever at one instant."""
    changed = f'algorithm={{name="{algorithm}", {key}=1e-10}}'
    assert f"algorithm.{key}: 1e-10 should be greater" in error_of(tmp_path, MINIMAL, changed)


@pytest.mark.parametrize("name", ["rfl-ha", "utility-ilp", "alike", "alike-gradients"])
def test_nobody_moves_between_gateways_that_only_forward(tmp_path, name):
    changes = 'algorithm={name="fedasync"}', f'association={{name="{name}"}}'
    told = error_of(tmp_path, MINIMAL, *changes)
    assert f"association.name = '{name}' moves devices between gateways" in told


def test_momentum_would_spoil_control_variates(tmp_path):
    scaffold = MINIMAL.replace('"fedavg"', '"two-level"') + (
        '[algorithm.gateway]\nname = "s-scaffold-exp"\n[training]\nmomentum = 0.9\n'
    )
    assert "momentum = 0.9: s-scaffold-exp's control variates" in error_of(tmp_path, scaffold)
    assert load(tmp_path, scaffold, "training.momentum=0.0").training.momentum == 0
    assert load(tmp_path, scaffold, 'algorithm.gateway={name="s-dyn"}').training.momentum == 0.9
