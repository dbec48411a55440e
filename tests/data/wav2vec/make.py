"""Makes fairseq.pt and answers.safetensors: a tiny checkpoint as fairseq writes them, and what fairseq's model says.

    python tests/data/wav2vec/make.py <checkout of github.com/facebookresearch/fairseq> tests/data/wav2vec

Runs the public model file itself, with random weights, its package replaced by the few names that the file imports;
it was run on commit 3d262bb25690e4eb2e7d3c1309b1e9c406ca4b99. Needs torch, omegaconf and safetensors, not fairseq
installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

DIM = 16
ENCODER = f"[({DIM}, 10, 5)] + [({DIM}, 8, 4)] + [({DIM}, 4, 2)] * 3 + [({DIM}, 1, 1)] * 2"
CONTEXT = str([(DIM, k, 1) for k in range(2, 14)])


def main() -> None:
    root, out = Path(sys.argv[1]) / "fairseq", Path(sys.argv[2])
    model_file = import_public_model(root)
    options = model_file.Wav2VecConfig()
    options.conv_feature_layers, options.conv_aggregator_layers = ENCODER, CONTEXT
    options.infonce = False
    torch.manual_seed(3)
    model = model_file.Wav2VecModel(options).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:  # norms and biases too shall be told apart
                parameter.uniform_(0.2, 1.5)
    samples = torch.randn(6_000) * 0.1
    save_file(answers(model, samples), out / "answers.safetensors")
    torch.save(checkpoint(model, root), out / "fairseq.pt")


def answers(model: Any, samples: torch.Tensor) -> dict[str, torch.Tensor]:
    drawn = []
    randint = torch.randint
    torch.randint = lambda **kwargs: drawn.append(randint(**kwargs)) or drawn[-1]  # type: ignore[assignment]
    with torch.no_grad():
        encoded = model.feature_extractor(samples.unsqueeze(0))
        context = model.feature_aggregator(encoded)
        result = model(samples.unsqueeze(0))
    torch.randint = randint
    logits, targets = result["cpc_logits"], result["cpc_targets"]
    summed = nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="sum")
    n_frames = encoded.shape[2]
    return {
        "samples": samples,
        "encoded": encoded[0].t().contiguous(),
        "context": context[0].t().contiguous(),
        # One crop: the indices, as the model has changed them, are those that it took, negatives x frames.
        "negatives": drawn[-1].view(-1, n_frames).t().contiguous(),
        "loss": summed / targets.sum(),  # as its criterion divides it
    }


def checkpoint(model: nn.Module, root: Path) -> dict[str, Any]:
    """What fairseq's trainer wrote in 2019: options as a Namespace, meters as objects of fairseq's own classes."""
    meters = load("fairseq.meters", root / "logging" / "meters.py")
    options = argparse.Namespace(
        arch="wav2vec",
        task="audio_pretraining",
        criterion="binary_cross_entropy",
        conv_feature_layers=ENCODER,
        conv_aggregator_layers=CONTEXT,
        skip_connections_agg=True,
        skip_connections_feat=False,
        residual_scale=0.5,
        log_compression=True,
        prediction_steps=12,
        num_negatives=10,
        aggregator="cnn",
        no_conv_bias=False,
        agg_zero_pad=False,
        non_affine_group_norm=False,
        project_features="none",
        offset="auto",
    )
    return {
        "args": options,
        "model": model.state_dict(),
        "optimizer_history": [{"criterion_name": "BinaryCrossEntropyCriterion", "num_updates": 1}],
        "extra_state": {"train_meters": {"loss": meters.AverageMeter(), "wall": meters.TimeMeter()}, "val_loss": 1.0},
        "last_optimizer_state": None,
    }


def import_public_model(root: Path) -> Any:
    stub("fairseq")
    stub("fairseq.dataclass", ChoiceEnum=lambda _: str, FairseqDataclass=object)
    stub("fairseq.models", BaseFairseqModel=nn.Module, register_model=lambda *_, **__: lambda cls: cls)
    stub("fairseq.tasks", FairseqTask=object)
    stub("fairseq.utils", buffered_arange=torch.arange)
    modules = root / "modules"
    stub(
        "fairseq.modules",
        Fp32GroupNorm=load("fairseq.modules.fp32_group_norm", modules / "fp32_group_norm.py").Fp32GroupNorm,
        Fp32LayerNorm=load("fairseq.modules.layer_norm", modules / "layer_norm.py").Fp32LayerNorm,
        TransposeLast=load("fairseq.modules.transpose_last", modules / "transpose_last.py").TransposeLast,
        GumbelVectorQuantizer=None,
        KmeansVectorQuantizer=None,
    )
    return load("fairseq.models.wav2vec.wav2vec", root / "models" / "wav2vec" / "wav2vec.py")


def stub(name: str, **names: Any) -> None:
    module = ModuleType(name)
    module.__dict__.update(names)
    sys.modules[name] = module


def load(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
