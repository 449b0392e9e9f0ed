#!/usr/bin/env bash
# Installs in every supported way, each in an environment of its own, and runs
# training steps in each. Ten builds and 15 GB, in a temporary folder or in one
# that is named: install_everywhere.sh [FOLDER]. The named one must be new and
# stays, so that tests can run in its environments.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if [ $# -gt 0 ]; then
  mkdir "$1"
  work=$(cd "$1" && pwd)
else
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi
cd "$work"
# Most of what is compiled ten times is the same.
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache
fi

# A copy, so that nothing that was built in place is found by accident.
mkdir tree
git -C "$root" ls-files -z --cached --others --exclude-standard |
  while IFS= read -r -d '' file; do
    [ ! -e "$root/$file" ] || (cd "$root" && cp --parents "$file" "$work/tree")
  done

environment() { # NAME: a fresh one; pip is then $NAME/bin/pip
  echo "==== $1"
  python3 -m venv "$1"
}

check() { # NAME TENSORFLOW: the ops load, and steps change the weights
  (cd / && "$work/$1/bin/fused-rnn" info) | tee "$1.txt"
  grep -q "^built for TensorFlow  *$2" "$1.txt"
  (cd / && "$work/$1/bin/python" - <<'STEP'
import keras
import numpy as np

import fused_rnn

x = np.random.default_rng(0).normal(size=(8, 5, 3)).astype("float32")
for layer in (
    fused_rnn.GRU(4),
    fused_rnn.LSTM(4),
    fused_rnn.SimpleRNN(4),
    keras.layers.RNN(fused_rnn.GRUBlockCell(4)),
    keras.layers.RNN(fused_rnn.LSTMBlockCell(4)),
    fused_rnn.RNN([fused_rnn.GRUCell(4), fused_rnn.LSTMCell(4)]),
):
    model = keras.Sequential([layer, keras.layers.Dense(1)])
    model.compile("adam", "mse")
    losses = model.fit(x, x.sum((1, 2)), epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0], (layer, losses)
    assert getattr(layer, "fallback_reason", None) is None, layer
STEP
  )
}

environment nothing
nothing/bin/pip install -q './tree[cpu]'
check nothing 2.21

for minor in 2.19 2.20; do
  environment "target-$minor"
  "target-$minor/bin/pip" install -q "tensorflow-cpu==$minor.*"
  "target-$minor/bin/pip" install -q ./tree
  check "target-$minor" "$minor"

  environment "named-$minor"
  FUSED_RNN_TENSORFLOW=$minor "named-$minor/bin/pip" install -q './tree[cpu]'
  check "named-$minor" "$minor"
done

echo "==== not isolated"
target-2.20/bin/pip install -q -U 'setuptools>=77' cmake ninja pybind11
PATH="$work/target-2.20/bin:$PATH" \
  target-2.20/bin/pip install -q --force-reinstall --no-deps \
  --no-build-isolation ./tree
check target-2.20 2.20

echo "==== editable, twice"
target-2.19/bin/pip install -q -e ./tree
target-2.19/bin/pip install -q -e ./tree
check target-2.19 2.19

echo "==== from the source distribution"
nothing/bin/pip install -q build
nothing/bin/python -m build -s -o dist tree >/dev/null
target-2.20/bin/pip install -q --force-reinstall --no-deps dist/*.tar.gz
check target-2.20 2.20

echo "==== another TensorFlow than it was built for"
target-2.20/bin/pip install -q 'tensorflow-cpu==2.21.*'
if (cd / && "$work/target-2.20/bin/python" -c 'import fused_rnn') 2>error.txt
then
  echo "it was not refused" >&2
  exit 1
fi
tail -1 error.txt
grep -q 'FUSED_RNN_TENSORFLOW=2.21 ' error.txt

environment none
FUSED_RNN_TENSORFLOW=none none/bin/pip install -q ./tree
(cd / && "$work/none/bin/fused-rnn" info)
none/bin/python -c 'import fused_rnn.numpy'
echo "==== all passed"
