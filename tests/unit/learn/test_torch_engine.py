"""Per-example gradients of every layer of the table equal single backward passes; what cannot is refused by name."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from sweeps import share  # noqa: E402
from tallystick.errors import InvalidInput, Refused  # noqa: E402
from tallystick.learn.torch.engine import WITHIN, Engine  # noqa: E402
from tallystick.learn.torch.gradients import CHUNK  # noqa: E402
from tallystick.learn.torch.noise import SLACK  # noqa: E402
from tallystick.learn.torch.replacements import GRU, LSTM, Attention, Positions  # noqa: E402

torch.set_num_threads(1)
NONE = nn.CrossEntropyLoss(reduction="none")


def squared(output: Any, target: Any) -> Any:
    return (output.flatten(1).sum(1) - target).square() + output.flatten(1).square().mean(1)


class Mean(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.mean(1)


class Tied(nn.Module):
    """An embedding whose table is also the output layer's weight."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(7, 5), nn.Linear(5, 7)
        self.out.weight = self.table.weight

    def forward(self, x: Any) -> Any:
        return self.out(self.table(x).tanh())


class Twice(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Any) -> Any:
        return self.inner(self.inner(x).tanh())


class Itself(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention(6, 2)

    def forward(self, x: Any) -> Any:
        return self.attention(x, x, x, is_causal=True)[0]


class Encoder(nn.Module):
    """torch's own encoder layers with learned positions, a causal mask and padding (token 0)."""

    def __init__(self, layers: int = 2, dropout: float = 0.0, **options: Any) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(7, 6), Positions(8, 6)
        made = nn.TransformerEncoderLayer(6, 2, 10, dropout=dropout, batch_first=True, **options)
        made.self_attn = Attention.from_torch(made.self_attn)
        self.layers = nn.TransformerEncoder(made, layers, enable_nested_tensor=False)
        self.out = nn.Linear(6, 3)

    def forward(self, x: Any) -> Any:
        causal = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        padding = torch.zeros(x.shape).masked_fill(x == 0, -1e9)
        read = self.layers(self.places(self.tokens(x)), mask=causal, src_key_padding_mask=padding, is_causal=True)
        return self.out(read.mean(1))


class Decoder(nn.Module):
    """torch's own decoder layer, whose second attention reads a longer sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(6, 2, 10, dropout=0.0, batch_first=True, norm_first=True)
        for name in ("self_attn", "multihead_attn"):
            setattr(self.layer, name, Attention.from_torch(getattr(self.layer, name)))

    def forward(self, x: Any) -> Any:
        return self.layer(x[:, :3], x)


def words(n: int) -> Any:
    return torch.randint(0, 7, (n, 6))


TABLE: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Any]]] = {
    "linear": (lambda: nn.Linear(5, 3), lambda n: torch.randn(n, 5)),
    "linear without bias": (lambda: nn.Linear(5, 3, bias=False), lambda n: torch.randn(n, 5)),
    "linear of a sequence": (lambda: nn.Linear(5, 3), lambda n: torch.randn(n, 4, 5)),
    "linear of a grid": (lambda: nn.Linear(5, 3), lambda n: torch.randn(n, 4, 2, 5)),
    "mlp, in place": (
        lambda: nn.Sequential(nn.Linear(5, 8), nn.ReLU(inplace=True), nn.Linear(8, 3)),
        lambda n: torch.randn(n, 5),
    ),
    "conv1d": (lambda: nn.Conv1d(4, 6, 3, stride=2, dilation=2, padding=2), lambda n: torch.randn(n, 4, 11)),
    "conv1d, groups": (lambda: nn.Conv1d(4, 6, 3, groups=2), lambda n: torch.randn(n, 4, 9)),
    "conv2d": (lambda: nn.Conv2d(2, 3, (3, 2), stride=(1, 2), padding=1), lambda n: torch.randn(n, 2, 7, 8)),
    "conv2d, same": (lambda: nn.Conv2d(2, 4, 3, padding="same", groups=2), lambda n: torch.randn(n, 2, 5, 5)),
    "conv2d, reflect": (
        lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"),
        lambda n: torch.randn(n, 2, 5, 5),
    ),
    "conv3d": (lambda: nn.Conv3d(2, 3, 2, stride=2), lambda n: torch.randn(n, 2, 4, 4, 4)),
    "embedding": (lambda: nn.Embedding(7, 5), words),
    "embedding, padded": (lambda: nn.Embedding(7, 5, padding_idx=1), words),
    "layer norm": (lambda: nn.LayerNorm([4, 5]), lambda n: torch.randn(n, 3, 4, 5)),
    "root mean square norm": (lambda: nn.RMSNorm(5), lambda n: torch.randn(n, 3, 5)),
    "group norm": (lambda: nn.GroupNorm(2, 6), lambda n: torch.randn(n, 6, 3, 2)),
    "instance norm 1d": (lambda: nn.InstanceNorm1d(6, affine=True), lambda n: torch.randn(n, 6, 5)),
    "instance norm 2d": (lambda: nn.InstanceNorm2d(6, affine=True), lambda n: torch.randn(n, 6, 3, 2)),
    "instance norm 3d": (lambda: nn.InstanceNorm3d(2, affine=True), lambda n: torch.randn(n, 2, 3, 2, 2)),
    "tied weights": (Tied, words),
    "called twice": (lambda: Twice(nn.Linear(5, 5)), lambda n: torch.randn(n, 5)),
    "called twice, sequence": (lambda: Twice(nn.Linear(5, 5)), lambda n: torch.randn(n, 3, 5)),
    "attention": (Itself, lambda n: torch.randn(n, 4, 6)),
    "lstm": (lambda: LSTM(3, 4), lambda n: torch.randn(n, 5, 3)),
    "gru": (lambda: GRU(3, 4), lambda n: torch.randn(n, 5, 3)),
    "cnn": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)
        ),
        lambda n: torch.randn(n, 1, 8, 8),
    ),
    "text": (
        lambda: nn.Sequential(nn.Embedding(7, 6), Itself(), nn.LayerNorm(6), nn.Dropout(0.0), Mean(), nn.Linear(6, 3)),
        words,
    ),
    "learned positions": (
        lambda: nn.Sequential(nn.Linear(3, 6), Positions(9, 6), nn.Tanh(), Mean(), nn.Linear(6, 3)),
        lambda n: torch.randn(n, 5, 3),
    ),
    "transformer encoder": (Encoder, words),
    "transformer encoder, norm first": (lambda: Encoder(1, norm_first=True, activation="gelu"), words),
    "transformer decoder": (Decoder, lambda n: torch.randn(n, 5, 6)),
}


def singly(model: nn.Module, loss: Any, x: Any, y: Any) -> list[Any]:
    """Gradients by one backward pass per example: the definition."""
    rows = []
    for i in range(len(x)):
        model.zero_grad()
        loss(model(x[i : i + 1]), y[i : i + 1]).sum().backward()
        rows.append(
            torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in model.parameters()])
        )
    model.zero_grad()
    return rows


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # vmap says so of attention
@pytest.mark.parametrize(
    ("name", "slow"), [*((name, False) for name in TABLE), *((name, True) for name in share(TABLE, 3))]
)
def test_every_layer_of_the_table_equals_single_passes(name: str, slow: bool) -> None:
    torch.manual_seed(5)
    make, draw = TABLE[name]
    model, x, y = make(), draw(9), torch.randn(9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = Engine(model, squared, slow=slow)
    engine.check([x, y])
    engine.micro = 4
    rows = singly(model, squared, x, y)
    norms = torch.stack([row.double().norm() for row in rows])
    found = torch.stack([g.squares() for g in engine.gradients([x, y]).values()]).sum(0).sqrt()
    assert torch.allclose(found, norms, rtol=1e-5, atol=0)
    for clip in (float(norms.median()), 1e6):
        expected = sum(row.double() * min(1.0, clip / float(row.double().norm())) for row in rows) * WITHIN
        summed = engine.clipped_sum([x, y], clip)
        assert (summed - expected).norm() <= 1e-5 * expected.norm()


@pytest.mark.parametrize("name", [*TABLE, "wide"])
def test_single_precision_sums_are_within_what_is_priced_of_the_true_ones(name: str) -> None:
    # 700 examples: five whole chunks and a part. Of identical ones the roundings all go the same way.
    torch.manual_seed(6)
    make, draw = TABLE[name] if name in TABLE else (lambda: nn.Linear(300, 700), lambda n: torch.randn(n, 300))
    model, x, y = make(), draw(700), torch.randn(700)
    x[100:] = x[:1]
    engine = Engine(model, squared)
    engine.micro = 1024
    fine, coarse = (engine.clipped_sum([x, y], 0.1, kind) for kind in (torch.float64, torch.float32))
    assert fine.dtype == torch.float64
    assert coarse.dtype == torch.float32
    chunks, largest = 6, CHUNK
    bound = 2.0**-24 * (chunks * (2 / 3 * largest**2 + 2 * largest) + largest * sum(range(2, chunks + 1)))
    assert 0 < float((fine - coarse.double()).norm()) <= 0.1 * bound


def test_the_slack_of_secure_noise_covers_two_chunks_and_two_totals_of_two_neighbours() -> None:
    chunks = 1024 // CHUNK
    one_chunk = 2 / 3 * CHUNK**2 + 2 * CHUNK
    one_total = CHUNK * sum(range(2, chunks + 1))
    assert 4 * 2.0**-24 * (one_chunk + one_total) * (1 + 2**-10) + 2.0**-20 < SLACK["secure"]


def test_products_that_torch_rounds_to_fewer_bits_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    # torch.set_float32_matmul_precision("medium") and autocast round factors to 8 bits, TF32 to 11.
    engine = Engine(nn.Linear(5, 3), squared)
    x, y = torch.randn(20, 5), torch.randn(20)
    plain = engine.clipped_sum([x, y], 0.1, torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        halves = [engine.clipped_sum([x[i : i + 1], y[i : i + 1]], 0.1, torch.float32) for i in range(20)]
    assert all(0.099 < float(one.norm()) <= 0.1 for one in halves)
    coarse = torch.Tensor.bfloat16
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda a, b: coarse(a).float().mm(coarse(b).float()))
    assert engine.clipped_sum([x, y], 0.1, torch.float32).dtype == torch.float64
    monkeypatch.undo()
    assert torch.equal(engine.clipped_sum([x, y], 0.1, torch.float32), plain)


def test_bfloat16_comes_by_autocast_and_what_mixes_examples_is_still_refused() -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(1, 2), Itself(), nn.LayerNorm(6), nn.Linear(6, 3)
    )
    x, y = torch.randn(40, 1, 8, 8), torch.randn(40)
    engine = Engine(model, squared)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        engine.check([x, y])
        for i in range(40):
            for kind in (torch.float32, torch.float64):
                one = engine.clipped_sum([x[i : i + 1], y[i : i + 1]], 0.1, kind)
                assert 0.0999 < float(one.double().norm()) <= 0.1
        with pytest.raises(Refused):
            Engine(nn.Linear(3, 3), centred).check([torch.zeros(1, 3), torch.zeros(1)])


class Rewrites(nn.Module):
    """Changes what a layer saw after it saw it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        y = self.first(x).detach().requires_grad_()
        out = self.second(y)
        with torch.no_grad():
            y.mul_(2.0)
        return out


def test_an_input_that_is_changed_after_a_layer_saw_it_is_refused() -> None:
    with pytest.raises(Refused):
        Engine(Rewrites(), squared).check([torch.zeros(1, 3), torch.zeros(1)])


def test_a_gradient_whose_parts_are_too_small_to_square_is_clipped_all_the_same() -> None:
    # 1e-24 squared is zero in single precision: the norm came out as zero, and 1e-24 times 1e18 was not clipped.
    engine = Engine(nn.Linear(3, 2), lambda output, target: 1e-24 * output.sum(1) + 0 * target)
    one = engine.clipped_sum([torch.full((1, 3), 1e18), torch.zeros(1)], 1e-7)
    assert float(one.norm()) <= 1e-7


def test_an_example_that_raises_leaves_the_sums_of_the_others_as_they_are_bit_by_bit() -> None:
    engine = Engine(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), NONE)
    x, y = torch.randn(300, 3), torch.randint(0, 2, (300,))
    spoiled, zero = y.clone(), x.clone()
    spoiled[7], zero[7] = 9, float("nan")  # one raises, one has no gradient: both add nothing, in place 7
    by_raising, by_value = (engine.clipped_sum([*both], 1.0, torch.float32) for both in ((x, spoiled), (zero, y)))
    assert torch.equal(by_raising, by_value)


def test_a_batch_that_raises_as_a_whole_does_not_stop_a_run() -> None:
    def loss(output: Any, target: Any) -> Any:
        if len(output) > 4:
            raise ValueError("too many")
        return output.sum(1)

    engine = Engine(nn.Linear(3, 2), loss)
    assert not engine.clipped_sum([torch.randn(9, 3), torch.zeros(9)], 1.0).any()


@pytest.mark.parametrize("name", ["linear", "cnn", "text", "tied weights"])
def test_no_sum_over_one_example_is_longer_than_the_clip(name: str) -> None:
    make, draw = TABLE[name]
    model = make()
    engine = Engine(model, squared)
    x, y = draw(30), 100 * torch.randn(30)
    for i in range(30):
        for kind in (torch.float64, torch.float32):
            one = engine.clipped_sum([x[i : i + 1], y[i : i + 1]], 0.1, kind)
            assert float(one.double().norm()) <= 0.1


def test_an_empty_batch_sums_to_zero() -> None:
    engine = Engine(nn.Linear(3, 2), squared)
    assert not engine.clipped_sum([torch.zeros(0, 3), torch.zeros(0)], 1.0).any()


def test_examples_without_a_finite_gradient_count_as_zero_and_touch_nobody_else() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    engine = Engine(model, squared)
    x, y = torch.randn(6, 3), torch.randn(6)
    kept = engine.clipped_sum([x, y], 1.0)
    for bad in (float("nan"), float("inf"), 3e38):
        spoiled_x = torch.cat([x, torch.full((2, 3), bad)])
        spoiled_y = torch.cat([y, torch.tensor([0.0, bad])])
        again = engine.clipped_sum([spoiled_x, spoiled_y], 1.0)
        assert torch.isfinite(again).all()
        if bad != 3e38:
            assert (again - kept).norm() <= 1e-6


def test_an_example_on_which_the_loss_raises_counts_as_zero() -> None:
    # A label nobody declared: torch raises for the whole batch, which would tell that it is there.
    engine = Engine(nn.Linear(3, 2), NONE)
    x, y = torch.randn(5, 3), torch.tensor([0, 1, 1, 0, 1])
    kept = engine.clipped_sum([x, y], 1.0)
    again = engine.clipped_sum([torch.cat([x, x[:1]]), torch.cat([y, torch.tensor([7])])], 1.0)
    assert (again - kept).norm() <= 1e-6


def test_frozen_parameters_have_no_gradient_and_do_not_count_in_the_norm() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    model[0].requires_grad_(False)
    model[2].weight.requires_grad_(False)
    engine = Engine(model, squared)
    engine.check([torch.zeros(1, 3), torch.zeros(1)])
    assert engine.clipped_sum([torch.randn(2, 3), torch.randn(2)], 1.0).shape == (2,)


def centred(output: Any, target: Any) -> Any:
    return (output - output.mean(0)).square().sum(1) + 0 * target


class Owner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(3))

    def forward(self, x: Any) -> Any:
        return x + self.shift


class Borrowed(nn.Module):
    """Uses a layer's weight a second time, outside the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return self.layer(x) @ self.layer.weight


class Remembers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        self.seen += x.detach().sum(0)
        return self.layer(x)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), "GroupNorm"),
        (nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3, affine=False)), "batch norm"),
        (nn.InstanceNorm1d(3, affine=True, track_running_stats=True), "track_running_stats=False"),
        (nn.Embedding(5, 3, max_norm=1.0), "max_norm"),
        (nn.LSTM(3, 3), "ts.learn.torch.LSTM"),
        (nn.GRU(3, 3), "GRU"),
        (nn.MultiheadAttention(4, 2), "ts.learn.torch.Attention"),
        (nn.TransformerEncoderLayer(4, 2), "ts.learn.torch.Attention"),
        (Owner(), "slow=True"),
        (nn.Bilinear(3, 3, 2), "slow=True"),
        (torch.nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)), "slow=True"),
        (nn.Linear(3, 3).to(torch.bfloat16), "float32"),
    ],
)
def test_what_cannot_be_clipped_is_refused_by_name_before_any_data(model: nn.Module, words: str) -> None:
    with pytest.raises(Refused, match=words):
        Engine(model, squared)


@pytest.mark.parametrize(
    ("model", "loss"),
    [(nn.Linear(3, 3), centred), (Borrowed(), squared), (Remembers(), squared), (nn.Linear(4, 3), squared)],
    ids=["cross-example loss", "weight used outside its layer", "running state", "wrong shape"],
)
def test_what_the_names_do_not_tell_the_numbers_do(model: nn.Module, loss: Any) -> None:
    with pytest.raises(Refused):
        Engine(model, loss).check([torch.zeros(1, 3), torch.zeros(1)])


@pytest.mark.parametrize("model", [Owner(), Borrowed(), nn.MultiheadAttention(4, 2, batch_first=True)])
def test_slow_is_right_for_what_the_hooks_refuse_and_says_that_it_is_slow(model: nn.Module) -> None:
    with pytest.warns(UserWarning, match="slower"):
        engine = Engine(model, squared, slow=True)
    if not isinstance(model, nn.MultiheadAttention):
        engine.check([torch.zeros(1, 3), torch.zeros(1)])


@pytest.mark.parametrize(
    "loss",
    [nn.CrossEntropyLoss(), lambda o, t: nn.functional.mse_loss(o[:, 0], t), lambda o, t: o],
    ids=["module", "mean", "matrix"],
)
def test_a_loss_that_is_not_one_number_per_example_is_refused(loss: Any) -> None:
    with pytest.raises(InvalidInput, match="loss"):
        Engine(nn.Linear(3, 3), loss).check([torch.zeros(1, 3), torch.zeros(1)])


def test_the_check_leaves_the_model_and_torchs_random_numbers_alone() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    before, state = [p.clone() for p in model.parameters()], torch.get_rng_state()
    Engine(model, squared).check([torch.zeros(1, 3), torch.zeros(1)])
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert torch.equal(state, torch.get_rng_state())
    assert model[1].training


def test_replacements_compute_what_torchs_own_layers_do() -> None:
    x = torch.randn(4, 5, 6)
    theirs: Any = nn.MultiheadAttention(6, 3, batch_first=True)
    assert torch.allclose(Attention.from_torch(theirs)(x, x, x)[0], theirs(x, x, x)[0], atol=1e-6)
    for mine, kind in ((LSTM, nn.LSTM), (GRU, nn.GRU)):
        theirs = kind(6, 3, batch_first=True)
        assert torch.allclose(mine.from_torch(theirs)(x), theirs(x)[0], atol=1e-6)


def test_the_sizes_of_micro_batches_are_public_and_equal() -> None:
    engine = Engine(nn.Linear(3, 2), squared)
    for examples in (1, 50, 3000):
        for batch, micro in ((10, 1024), (1024, 1024), (1100.5, 551), (5000, 1000)):
            engine.check([torch.randn(examples, 3), torch.randn(examples)], batch)
            assert engine.micro == micro


@pytest.mark.parametrize("clip", [1e-3, 1e-7, 1e-9])
def test_inputs_so_large_that_their_clip_factor_has_no_digits_left_are_clipped_too(clip: float) -> None:
    """Found from outside: clip / norm below 1.2e-38 is rounded up in single precision, to 2 clips and more."""
    layer = nn.Linear(1, 1)
    with torch.no_grad():
        layer.weight.zero_()
    engine = Engine(layer, lambda out, slope: out[:, 0] * slope)
    for size in (1.42e38, 2.85e38, 1e30, 1e19, 1e12):
        for slope in (1.0, 1e-10, 1e-36):
            one = engine.clipped_sum([torch.full((1, 1), size), torch.full((1,), slope)], clip, torch.float32)
            assert float(one.double().norm()) <= clip * (1 + 2.0**-12)


def test_a_compiled_model_is_refused_by_name_at_once() -> None:
    compiled = nn.Linear(4, 2)
    compiled.compile()
    for model in (torch.compile(nn.Linear(4, 2)), compiled, nn.Sequential(compiled)):
        with pytest.raises(Refused, match=r"Try: the model before torch\.compile"):
            Engine(model, NONE)


def test_a_loss_of_several_numbers_per_example_is_told_what_to_do() -> None:
    engine = Engine(nn.Linear(4, 3), nn.MSELoss(reduction="none"))
    with pytest.raises(InvalidInput, match=r"shape \(4, 3\).*\.flatten\(1\)\.mean\(1\)"):
        engine.check([torch.zeros(5, 4), torch.zeros(5, 3)])


@pytest.mark.parametrize(
    "crowd",
    [
        lambda losses: losses.clamp(max=10 * losses.detach().median()),
        lambda losses: losses * (losses >= losses.topk(min(64, len(losses))).values[-1]),
        lambda losses: losses / losses.detach().max().clamp(min=100.0) * 100,
    ],
)
def test_losses_that_treat_four_normal_examples_alike_but_look_at_the_batch_are_refused(crowd: Any) -> None:
    """Found from outside: outliers that count no more than ten medians, and the 64 hardest, passed the check."""
    engine = Engine(nn.Linear(4, 2), lambda out, target: crowd(NONE(out, target)))
    with pytest.raises(Refused, match="looks at the whole batch"):
        engine.check([torch.zeros(5, 4), torch.zeros(5, dtype=torch.long)])


def test_nothing_that_holds_gradients_or_noise_can_be_stored() -> None:
    from tallystick.learn.torch.correlated import CorrelatedNoise

    for secret in (Engine(nn.Linear(4, 2), NONE), CorrelatedNoise(1.0, 1.0, 10, 4)):
        for copied in (pickle.dumps, copy.deepcopy):
            with pytest.raises(Refused, match="cannot be copied or stored"):
                copied(secret)


# -- attention in torch's own layers, learned positions, autocast


MASKS: dict[str, dict[str, Any]] = {
    "none": {},
    "causal": {"attn_mask": torch.ones(5, 5, dtype=torch.bool).triu(1)},
    "numbers": {"attn_mask": torch.randn(5, 5, generator=torch.Generator().manual_seed(0))},
    "each head": {"attn_mask": torch.randn(4 * 3, 5, 5, generator=torch.Generator().manual_seed(0))},
    "padding": {"key_padding_mask": torch.tensor([[False] * 3 + [True] * 2] * 4)},
    "both": {
        "key_padding_mask": torch.tensor([[False] * 3 + [True] * 2] * 4),
        "attn_mask": torch.ones(5, 5, dtype=torch.bool).triu(1),
        "is_causal": True,
    },
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("bias", [True, False])
def test_attention_takes_torchs_masks_and_returns_what_torchs_returns(name: str, bias: bool) -> None:
    torch.manual_seed(0)
    theirs, x = nn.MultiheadAttention(6, 3, bias=bias, batch_first=True), torch.randn(4, 5, 6)
    ours = Attention.from_torch(theirs)
    for options in ({}, {"need_weights": False}, {"average_attn_weights": False}):
        expected = theirs(x, x, x, **MASKS[name], **options)
        found = ours(x, x, x, **MASKS[name], **options)
        assert torch.allclose(found[0], expected[0], atol=1e-6)
        assert (found[1] is None) == (expected[1] is None)
        assert found[1] is None or torch.allclose(found[1], expected[1], atol=1e-6)


def test_attention_reads_keys_and_values_of_other_sizes_and_keeps_its_dropout() -> None:
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(6, 3, dropout=0.5, kdim=4, vdim=2, batch_first=True).eval()
    ours = Attention.from_torch(theirs)
    given = torch.randn(4, 5, 6), torch.randn(4, 7, 4), torch.randn(4, 7, 2)
    assert torch.allclose(ours(*given)[0], theirs(*given)[0], atol=1e-6)
    ours.train()
    assert not torch.equal(ours(*given)[0], ours(*given)[0])


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"batch_first": False}, "batch_first"),
        ({"add_bias_kv": True}, "add_bias_kv"),
        ({"add_zero_attn": True}, "add_"),
    ],
)
def test_attention_that_cannot_be_clipped_is_refused_with_the_reason(options: Any, name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        Attention(6, 3, **options)
    with pytest.raises(InvalidInput, match=name):
        Attention.from_torch(nn.MultiheadAttention(6, 3, **({"batch_first": True} | options)))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("mode", ["train", "eval", "no_grad"])
def test_an_encoder_of_torch_gives_the_same_with_our_attention(when: str, mode: str) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(6, 2, 10, dropout=0.0, batch_first=True)
    theirs = nn.TransformerEncoder(copy.deepcopy(layer), 2)
    if when == "before":
        layer.self_attn = Attention.from_torch(layer.self_attn)
    ours = nn.TransformerEncoder(layer, 2)
    for made in ours.layers if when == "after" else []:
        made.self_attn = Attention.from_torch(made.self_attn)
    x, padding = torch.randn(4, 5, 6), torch.tensor([[False] * 3 + [True] * 2] * 4)
    for model in (ours, theirs):
        model.train(mode == "train")
    with torch.no_grad() if mode == "no_grad" else torch.enable_grad():
        expected, found = (model(x, src_key_padding_mask=padding) for model in (theirs, ours))
    assert torch.allclose(found[:, :3], expected[:, :3], atol=1e-5)


def test_dropout_of_attention_passes_the_check_and_is_on_in_training() -> None:
    torch.manual_seed(0)
    model, x, y = Encoder(1, dropout=0.3), words(9), torch.randn(9)
    engine = Engine(model, squared)
    engine.check([x, y])
    assert not torch.equal(engine.clipped_sum([x, y], 1.0), engine.clipped_sum([x, y], 1.0))


class SharedPlaces(nn.Module):
    """Looks places up once for all examples."""

    def __init__(self, places: int, expanded: bool = False) -> None:
        super().__init__()
        self.table, self.out, self.places = nn.Embedding(places, 3), nn.Linear(3, 3), places
        self.expanded = expanded

    def forward(self, x: Any) -> Any:
        places = torch.arange(self.places)
        return self.out(x + self.table(places.expand(len(x), -1) if self.expanded else places))


@pytest.mark.parametrize("places", [3, 4, 5])
def test_places_that_all_examples_share_are_refused_with_the_reason_and_what_works_does(places: int) -> None:
    x, y = torch.randn(9, places, 3), torch.randn(9)
    with pytest.raises(Refused, match=r"learned positions do\. Try: ts\.learn\.torch\.Positions"):
        Engine(SharedPlaces(places), squared).check([x, y])
    model = SharedPlaces(places, expanded=True)
    engine = Engine(model, squared)
    engine.check([x, y])
    expected = sum(row.double() for row in singly(model, squared, x, y)) * WITHIN
    assert (engine.clipped_sum([x, y], 1e6) - expected).norm() <= 1e-5 * expected.norm()


def test_a_parameter_for_positions_is_sent_to_the_layer_that_works() -> None:
    with pytest.raises(Refused, match=r"ts\.learn\.torch\.Positions for learned positions"):
        Engine(Owner(), squared)


def test_positions_refuse_more_places_than_they_have() -> None:
    with pytest.raises(InvalidInput, match="at most 4 places"):
        Positions(4, 6)(torch.zeros(2, 5, 6))


class Casts(nn.Module):
    """Turns autocast on inside forward."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *given: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.inner(*given).float()


def test_autocast_inside_forward_is_clipped_like_autocast_outside() -> None:
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 3))
    x, y = torch.randn(12, 5), torch.randn(12)
    engine = Engine(Casts(inner), squared)
    engine.check([x, y])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outside = Engine(inner, lambda out, target: squared(out.float(), target))
        outside.check([x, y])
        expected = outside.clipped_sum([x, y], 1e6)
    assert torch.allclose(engine.clipped_sum([x, y], 1e6), expected, rtol=1e-3, atol=1e-3)
    for i in range(12):
        assert float(engine.clipped_sum([x[i : i + 1], y[i : i + 1]], 0.1).double().norm()) <= 0.1


def test_what_mixes_examples_is_still_refused_under_autocast_inside_forward() -> None:
    with pytest.raises(Refused):
        Engine(Casts(nn.Linear(3, 3)), centred).check([torch.zeros(1, 3), torch.zeros(1)])
