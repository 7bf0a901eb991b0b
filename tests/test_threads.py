"""Threads follow the free cores: what is read, what is chosen, and that the reader's own setting comes back."""

from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
import torch

import mtp_tutorial as mt
from mtp_tutorial import doctor
from mtp_tutorial.models import threads
from mtp_tutorial.models.threads import SMALL, Cores, fitted, fitting, free_between


@pytest.fixture
def four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def free_cores(monkeypatch):
    """Sets how many cores are free, in place of what the machine says."""

    def choose(number):
        monkeypatch.setattr(threads._cores, "free", lambda: number)

    return choose


@pytest.mark.parametrize(
    "seconds, total, idle, own, free",
    [
        (1.0, 2.0, 2.0, 0.0, 2.0),  # nothing runs
        (1.0, 2.0, 0.0, 2.0, 2.0),  # both cores are ours
        (1.0, 2.0, 0.0, 1.33, 1.33),  # two spinning threads of ours and one of somebody else
        (0.5, 1.0, 0.5, 0.0, 1.0),  # one core is somebody else's
        (1.0, 4.0, 0.0, 0.0, 0.0),
        (1.0, 0.0, 0.0, 2.0, None),  # a sandbox that counts nothing
    ],
)
def test_free_cores_are_the_idle_ones_and_our_own(seconds, total, idle, own, free):
    before = (10.0, 100.0, 40.0, 7.0)
    after = tuple(b + d for b, d in zip(before, (seconds, total, idle, own), strict=True))
    assert free_between(before, after) == (None if free is None else pytest.approx(free))


@pytest.mark.parametrize("free, chosen", [(2.0, 2), (1.8, 2), (1.6, 1), (1.0, 1), (0.0, 1), (15.9, 2), (None, 2)])
def test_a_core_that_others_use_gets_no_thread(free, chosen):
    assert fitting(2, free) == chosen


def test_small_models_stay_on_one_thread_so_that_float32_repeats_exactly():
    assert fitting(8, 8.0, SMALL - 1) == 1
    assert fitting(8, 8.0, SMALL) == 8


def test_the_limit_is_what_was_set_and_comes_back(four_threads, free_cores):
    free_cores(2.0)
    with pytest.raises(KeyError), fitted():
        assert torch.get_num_threads() == 2
        with fitted(SMALL - 1):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
        raise KeyError
    assert torch.get_num_threads() == 4
    free_cores(64.0)
    with fitted():
        assert torch.get_num_threads() == 4


def test_python_threads_share_the_free_cores(four_threads, free_cores):
    free_cores(4.0)

    def seen():
        torch.set_num_threads(4)
        with fitted(), fitted():
            return torch.get_num_threads()

    with ThreadPoolExecutor(1) as pool, fitted():
        assert pool.submit(seen).result() == 2
    assert seen() == 4
    assert not threads._inside


def test_readings_are_averaged_over_a_window(monkeypatch):
    clock, readings = [0.0], iter([(0.0, 0.0, 0.0, 0.0), (0.3, 0.6, 0.3, 0.0), (0.6, 1.2, 0.9, 0.0)])
    monkeypatch.setattr(threads.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(Cores, "_read", staticmethod(lambda: next(readings)))
    cores, found = Cores(), []
    for now in (0.1, 0.3, 0.4, 0.6):
        clock[0] = now
        found.append(cores.free())
    assert found == [None, pytest.approx(1.0), pytest.approx(1.0), pytest.approx(2.0)]


@pytest.mark.parametrize("error", [psutil.AccessDenied(), ValueError("garbled"), AttributeError("cpu_times"), None])
def test_a_system_that_does_not_tell_changes_nothing(monkeypatch, four_threads, error):
    def refused(**_):
        if error is not None:
            raise error

    monkeypatch.setattr(psutil, "cpu_times", refused)
    monkeypatch.setattr(threads, "_cores", Cores())
    with fitted():
        assert torch.get_num_threads() == 4


def test_the_real_counters_add_up():
    reading = Cores._read()
    assert reading is None or (0 <= reading[2] <= reading[1] and reading[3] > 0)


class _Threads(mt.Hooks):
    """Notes the number of threads at each call."""

    def __init__(self):
        self.seen = []

    def probabilities(self, *given):
        self.seen.append(torch.get_num_threads())
        return super().probabilities(*given)


def test_the_loop_runs_on_the_free_cores_and_its_caller_keeps_its_threads(monkeypatch, four_threads, free_cores):
    toy, hooks = mt.load("toy"), _Threads()
    free_cores(3.0)
    toy._weight_bytes = SMALL
    for _ in mt.stream(toy, [1, 2], max_new_tokens=3, hooks=hooks):
        assert torch.get_num_threads() == 4
        free_cores(1.0)  # another program begins
    assert hooks.seen == [3, 1, 1]


def test_nano_decodes_on_one_thread(four_threads, free_cores):
    free_cores(4.0)
    hooks = _Threads()
    mt.generate(mt.load("nano"), "One morning", drafter="mtp", max_new_tokens=4, hooks=hooks)
    assert set(hooks.seen) == {1}
    assert torch.get_num_threads() == 4


def test_what_depends_on_the_number_of_threads_keeps_it(four_threads, free_cores):
    free_cores(1.0)
    hooks = _Threads()
    mt.generate(mt.load("nano", batch_invariant=True), "One morning", max_new_tokens=2, hooks=hooks)
    assert set(hooks.seen) == {4}


@pytest.mark.parametrize("free, status", [(0.9, doctor.NOTE), (64.0, doctor.OK), (None, doctor.NOTE)])
def test_doctor_says_how_many_cores_are_busy(monkeypatch, four_threads, free, status):
    monkeypatch.setattr(Cores, "free", lambda self: free)
    finding = doctor._cores()
    assert finding.status == status
    assert ("1 of 4 threads" in finding.found) == (free == 0.9)
