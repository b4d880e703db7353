"""Copies of tiny models that a test may damage."""

import shutil

import pytest


@pytest.fixture
def mono(tiny_mono, tmp_path):
    return shutil.copytree(tiny_mono, tmp_path / "mono")


@pytest.fixture
def encoder(tiny_model, tmp_path):
    return shutil.copytree(tiny_model, tmp_path / "encoder")
