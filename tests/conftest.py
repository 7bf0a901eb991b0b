"""Settings every test shares: as many threads as cores over all test processes, no window; the real model once."""

import os

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("TQDM_DISABLE", "1")

import pytest  # noqa: E402  the settings above must come first
import torch  # noqa: E402

workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))


def pytest_collection_modifyitems(items):
    """Skip what needs the real model where it is not in the cache; `make test` fetches it first."""
    wanting = [item for item in items if item.get_closest_marker("smollm2")]
    if wanting:
        from mtp_tutorial.models import smollm2

        if not smollm2.is_cached():
            for item in wanting:
                item.add_marker(pytest.mark.skip(reason="smollm2 is not cached: run `mtp-tutorial fetch smollm2`"))


@pytest.fixture(scope="session")
def smollm2():
    """The real model in float32 on the CPU, loaded once for each test process; its tests carry the mark `smollm2`."""
    import mtp_tutorial as mt

    return mt.load("smollm2", device="cpu", dtype="float32")
