#!/bin/sh
# Before the package is installed: the CPU build of torch on Linux without an NVIDIA driver, where PyPI's own build would
# bring 2-3 GB of CUDA that nothing can use. Everywhere else, and when the index of CPU builds cannot be reached,
# nothing happens here: installing the package then brings PyPI's build.
#
#   tools/install_torch.sh PYTHON "torch>=2.9" INDEX
set -eu
python=$1 torch=$2 index=$3

is_installed() { "$python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)'; }

has_cpu_build() {
  case "$(uname -s) $(uname -m)" in
    "Linux x86_64" | "Linux aarch64") true ;;
    *) false ;;  # on macOS and Windows PyPI's build is the CPU build
  esac
}

has_nvidia_driver() { command -v nvidia-smi >/dev/null 2>&1 || [ -e /proc/driver/nvidia ]; }

# One short look. The index is given twice, lest another one in pip's settings answers in its place.
is_reachable() {
  PIP_EXTRA_INDEX_URL=$index "$python" -m pip index versions torch --index-url "$index" --timeout 5 --retries 0 \
    >/dev/null 2>&1
}

if is_installed || ! has_cpu_build || has_nvidia_driver; then exit 0; fi
if is_reachable; then
  echo "No NVIDIA driver here: installing torch's CPU build, 190 MB (TORCH_SPEC=... chooses another)"
  # --no-deps: what torch needs comes with the package, from the reader's own index.
  exec "$python" -m pip install --no-deps --index-url "$index" "$torch"
fi
echo "No NVIDIA driver here, but $index cannot be reached: torch comes from pip's own index." >&2
echo "On Linux that build carries CUDA (2-3 GB); TORCH_SPEC=... names another." >&2
