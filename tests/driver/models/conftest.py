"""A hub on this machine, which this process asks in the place of huggingface.co."""

import pytest
from hub_server import served


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """The hub; the library has a cache of its own and no token.

    The library reads its environment when it is imported, so this process sets what it read.
    """
    from huggingface_hub import constants

    with served() as found:
        monkeypatch.setattr(constants, "ENDPOINT", found.url)
        page = found.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", page)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "library" / "hub"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "library" / "token"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        yield found


@pytest.fixture
def offline(monkeypatch):
    """A function that sets HF_HUB_OFFLINE, as far as this process has read it."""
    from huggingface_hub import constants

    return lambda: monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
