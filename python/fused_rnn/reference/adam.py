"""Adam, on dictionaries of arrays."""

import numpy as np


class Adam:
    """Adam as Keras has it: Kingma and Ba, Adam, 2015, Algorithm 1 in the
    order of operations that their section 2 ends with.

        m ← β₁·m + (1−β₁)·g                running mean of the gradient g
        v ← β₂·v + (1−β₂)·g²               and of its square
        w ← w − α·√(1−β₂ᵗ)/(1−β₁ᵗ) · m/(√v + ε)

    m and v start at zero, so that after t steps they fall short of the means
    by 1−β₁ᵗ and 1−β₂ᵗ; the factor of α makes up for it.

    Args:
      learning_rate: α.
      beta_1, beta_2, epsilon: β₁, β₂, ε; the defaults are Keras'.

    Example:
      optimizer = Adam(3e-3)
      optimizer.update(model.weights, gradients)
    """

    def __init__(
        self, learning_rate=1e-3, beta_1=0.9, beta_2=0.999, epsilon=1e-7
    ):
        self.learning_rate = learning_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.steps = 0
        self._means = {}
        self._squares = {}

    def update(self, weights, gradients):
        """One step: changes the arrays of weights in place.

        Args:
          weights: a dict of float64 arrays.
          gradients: a dict of an array for each of them, of the same shape.

        Raises:
          ValueError: the dicts have different names.
        """
        if weights.keys() != gradients.keys():
            raise ValueError(
                f"gradients: expected those of {', '.join(sorted(weights))}, "
                f"got those of {', '.join(sorted(gradients))}"
            )
        self.steps += 1
        rate = (
            self.learning_rate * np.sqrt(1.0 - self.beta_2**self.steps)
            / (1.0 - self.beta_1**self.steps)
        )
        for name, gradient in gradients.items():
            mean = self._means.setdefault(name, np.zeros_like(gradient))
            square = self._squares.setdefault(name, np.zeros_like(gradient))
            mean += (1.0 - self.beta_1) * (gradient - mean)
            square += (1.0 - self.beta_2) * (gradient**2 - square)
            weights[name] -= rate * mean / (np.sqrt(square) + self.epsilon)
