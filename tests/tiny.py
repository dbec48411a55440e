"""A tiny pretrained encoder and a tiny punctuated data directory, made on the spot."""

from __future__ import annotations

from pathlib import Path

import numpy as np

LETTERS = "abcdefghijklmnopqrstuvwxyz'"
SENTENCES = ("Do you see it?", "Well, we do.", "Yes, I see the sea.", "Is it so?", "They say no.", "No, we go to NASA.")


def write_encoder(directory: Path, *, mask: bool = False) -> Path:
    """A transformers directory of a 2-layer BERT with seeded weights, never trained; with a mask piece or not."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    special = {"mask_token": "[MASK]"} if mask else {}
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *special.values(), *LETTERS, *(f"##{c}" for c in LETTERS)]
    tokenizer = Tokenizer(models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]",
        **special,
    )  # fmt: skip
    fast.save_pretrained(directory)
    torch.manual_seed(11)
    BertModel(
        BertConfig(
            vocab_size=len(pieces),
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=128,
        )
    ).save_pretrained(directory)
    return directory


def write_data_dir(directory: Path, n_utts: int = 12, seed: int = 1, with_sound: bool = False) -> Path:
    """A data directory with ``text_punct``, ``ctm`` (a pause after each final mark) and, if asked for, ``wav.scp``."""
    import soundfile

    directory.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    text_punct, ctm, wav = [], [], []
    for u in range(n_utts):
        utt_id = f"utt{u:02d}"
        sentences = [SENTENCES[i] for i in rng.integers(0, len(SENTENCES), 5)]
        text_punct.append(f"{utt_id} {' '.join(sentences)}\n")
        now_s = 0.1
        for token in " ".join(sentences).split(" "):
            word = token.rstrip(",.?").lower()
            ctm.append(f"{utt_id} 1 {now_s:.2f} 0.20 {word} 0.9\n")
            now_s += 0.2 + (0.4 if token[-1] in ".?" else 0.0)
        if with_sound:
            samples = rng.normal(0, 0.1, int((now_s + 0.2) * 8000)).astype(np.float32)
            path = directory / f"{utt_id}.wav"
            soundfile.write(path, samples, 8000)
            wav.append(f"{utt_id} {path}\n")
    (directory / "text_punct").write_text("".join(text_punct))
    (directory / "ctm").write_text("".join(ctm))
    if with_sound:
        (directory / "wav.scp").write_text("".join(wav))
    return directory
