"""Models trained on the spot on speech made of numbers: what wrong and missing word times cost each fusion."""

from __future__ import annotations

import pytest
import torch
from synthetic import accuracy, train_muse

N_STEPS = {"forced_alignment": 60, "attention": 250}


@pytest.fixture(autouse=True)
def one_thread() -> object:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
def test_wrong_times_hurt_forced_alignment_and_leave_attention_alone() -> None:
    aligned = train_muse("forced_alignment", N_STEPS["forced_alignment"])
    attending = train_muse("attention", N_STEPS["attention"])
    assert accuracy(aligned) > 0.9
    assert accuracy(attending) > 0.9
    for shift_s in (-0.5, 0.5):
        assert accuracy(aligned, shift_s=shift_s) < 0.6  # one mark in three is right by chance
        assert accuracy(attending, shift_s=shift_s) > accuracy(attending) - 0.05
    assert accuracy(aligned, timed=False) < 0.6
    assert accuracy(attending, timed=False) > accuracy(attending) - 0.05
