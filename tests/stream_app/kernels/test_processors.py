"""Every number of factors compiles for every processor, and all that run agree in every bit."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from llvmlite import binding

ROOT = Path(__file__).parents[3]
# SSE4 alone, AVX2 twice, AVX-512.
PROCESSORS = ("x86-64-v2", "haswell", "znver3", "skylake-avx512")
EVERY_PROCESSOR = (*PROCESSORS, "sapphirerapids")
WIDTHS = (1, 2, 7, 8, 31, 32, 33, 40, 63, 64, 65, 100, 130)
FEW_WIDTHS = (7, 33, 63, 100)  # of further processors
SOME_WIDTHS = (33, 63)
A_WIDTH = (33,)  # of whole learners, each of which compiles for seconds
EVERY_WIDTH = range(1, 131)
# What this processor must have in order to run what is compiled for another.
NEEDED = {
    "x86-64-v2": ("sse4.2",),
    "haswell": ("avx2", "fma", "bmi2"),
    "znver3": ("avx2", "fma", "bmi2", "vaes", "sha", "clzero"),
    "skylake-avx512": ("avx512f", "avx512bw", "avx512dq", "avx512vl"),
    "sapphirerapids": ("avx512f", "avx512fp16", "amx-tile"),
}

WITH_AVX512 = ("skylake-avx512", "sapphirerapids")

x86_only = pytest.mark.skipif(
    not binding.get_process_triple().startswith("x86_64"), reason="no x86-64 processor"
)


def run_program(*arguments: Any, cache: Path, **numba: str) -> dict[str, Any]:
    """Run the program of `processors.py` in a process of its own; raises where that aborts."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    environment = inherited | {f"NUMBA_{k.upper()}": v for k, v in numba.items()}
    done = subprocess.run(
        [sys.executable, "-m", "tests.stream_app.kernels.processors", *map(str, arguments)],
        cwd=ROOT,
        env=environment | {"NUMBA_CACHE_DIR": str(cache), "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{arguments} with {numba}: exit {done.returncode}\n{done.stderr}"
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def check(kind: str, widths: Any, processor: str, cache: Path) -> None:
    """Compare the digests of compiled code for `processor` with those of plain numpy.

    What this machine cannot run is only compiled; the vectors of a learner are those of a step, and
    the lanes of an index those of codes.
    """
    features = binding.get_host_cpu_features()
    if not all(features.get(name) for name in NEEDED[processor]):
        kind = {"learners": "step", "scan": "codes"}.get(kind, kind)
        check_compiles(kind, widths, processor, cache)
        return
    compiled = run_program(kind, *widths, cache=cache, **set_to(processor))
    plain = uncompiled(kind, tuple(widths))
    assert compiled["digests"] == plain["digests"]
    assert compiled["zmm"] == (processor in WITH_AVX512)
    assert plain["zmm"] is None


@functools.cache
def uncompiled(kind: str, widths: tuple[int, ...]) -> dict[str, Any]:
    """Return what plain numpy finds, the same for every processor; it reads no cache."""
    return run_program(kind, *widths, cache=ROOT, disable_jit="1")


def check_compiles(kind: str, widths: Any, processor: str, cache: Path) -> None:
    """Compile for `processor`, whatever this machine is, and run nothing."""
    compiled = run_program("--compile-only", kind, *widths, cache=cache, **set_to(processor))
    assert compiled["digests"] == dict.fromkeys(map(str, widths))
    assert compiled["zmm"] == (processor in WITH_AVX512)


def set_to(processor: str) -> dict[str, str]:
    """Return the settings of numba for the features of `processor` and none of this machine."""
    return {"cpu_name": processor, "cpu_features": ""}


@x86_only
@pytest.mark.thorough
@pytest.mark.parametrize(
    "processor", [pytest.param("x86-64-v2", marks=pytest.mark.nightly), "haswell"]
)
def test_two_widths_have_the_same_bits_on_two_processors(processor: str, tmp_path: Path) -> None:
    check("vectors", (7, 33), processor, tmp_path)


SWEEP = [
    *(("vectors", WIDTHS if p == PROCESSORS[0] else FEW_WIDTHS, p) for p in EVERY_PROCESSOR),
    ("step", SOME_WIDTHS, "haswell"),
    ("learners", A_WIDTH, "haswell"),
    ("eigen", SOME_WIDTHS, "haswell"),
    *(("codes", (3, 33), p) for p in ("x86-64-v2", "skylake-avx512")),
    *(("scan", A_WIDTH, p) for p in ("x86-64-v2", "haswell")),
]


def in_parallel(
    check_one: Callable[[str, Any, str, Path], None],
    checks: Sequence[tuple[str, Any, str]],
    folder: Path,
) -> None:
    """Make every check, as many at once as there are processors; raises what the first raised."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = [
            pool.submit(check_one, *each, folder / str(number))
            for number, each in enumerate(checks)
        ]
    for each in made:
        each.result()


@x86_only
@pytest.mark.nightly
def test_every_kind_of_kernel_has_the_same_bits_on_every_processor(tmp_path: Path) -> None:
    in_parallel(check, SWEEP, tmp_path)


@x86_only
@pytest.mark.nightly
def test_every_kind_of_kernel_has_the_same_bits_without_avx512(tmp_path: Path) -> None:
    kinds = [
        ("step", A_WIDTH, "haswell"),
        ("eigen", A_WIDTH, "haswell"),
        ("codes", (3,), "haswell"),
    ]
    in_parallel(check, kinds, tmp_path)


@x86_only
@pytest.mark.nightly
def test_kernels_compile_for_avx512_on_any_machine(tmp_path: Path) -> None:
    compiled = [(kind, SOME_WIDTHS, "skylake-avx512") for kind in ("vectors", "step")]
    in_parallel(check_compiles, compiled, tmp_path)


@x86_only
@pytest.mark.nightly
def test_kernels_compile_for_a_processor_that_this_machine_cannot_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(NEEDED, "haswell", ("a feature that no machine has",))
    in_parallel(check, [(kind, A_WIDTH, "haswell") for kind in ("vectors", "learners")], tmp_path)


def check_arm64(widths: Any, cache: Path) -> None:
    found = run_program("arm64", *widths, cache=cache)["digests"]
    assert found == {str(n): "neon" if n > 3 else found[str(n)] for n in widths}


@x86_only
@pytest.mark.thorough
def test_vectors_compile_for_arm64(tmp_path: Path) -> None:
    check_arm64(WIDTHS, tmp_path)


@x86_only
@pytest.mark.nightly
def test_every_width_compiles_for_arm64(tmp_path: Path) -> None:
    check_arm64(EVERY_WIDTH, tmp_path)


@x86_only
@pytest.mark.nightly
def test_every_width_has_the_same_bits(tmp_path: Path) -> None:
    every = [(kind, EVERY_WIDTH, p) for kind in ("vectors", "step") for p in PROCESSORS]
    in_parallel(check, [*every, *(("learners", WIDTHS, p) for p in PROCESSORS)], tmp_path)
