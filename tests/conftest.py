"""What holds for every test."""

import os

# On a GPU, float32 products round their factors to TF32 unless told otherwise;
# the bounds of the tests are those of float32.
os.environ.setdefault("NVIDIA_TF32_OVERRIDE", "0")
