"""A gateway starts without a learner: none of what it imports is compiled or Faust's."""

import subprocess
import sys

REFUSED = ("numba", "llvmlite", "faust", "mode", "aiokafka")
OURS = ("models", "kernels", "state", "agents", "deployment", "serving")


def test_a_gateway_imports_no_learner():
    names = [*REFUSED, *(f"stream_app.{room}" for room in OURS)]
    code = (
        f"import stream_app.gateway.serving, sys; print([n for n in {names} if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
